// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A detour's queues hold this many packets; any more are dropped. Packets are no
// longer than the device's MTU.
const (
	detourQueue  = 4096
	detourPacket = 2048
)

// detour is a TUN device to which the host routes the traffic between zones
// that have weather. The packets come back from it late or never.
type detour struct {
	device *os.File
	zones  map[netip.Addr]string
	names  []string
	paths  sync.WaitGroup
	late   atomic.Int64 // packets that have been delivered
	lost   atomic.Int64

	mu    sync.Mutex
	state state
}

// parcel is a packet on its way.
type parcel struct {
	due  time.Time
	data []byte
}

// openDetour makes the device, brings it up, and points its own routing table
// to it. It goes away with close, or with the test process.
func (n *namespaces) openDetour(ctx context.Context) (*detour, error) {
	name := n.slot.prefix() + "detour"
	device, err := openTUN(name)
	if err != nil {
		return nil, err
	}
	d := &detour{device: device, zones: map[netip.Addr]string{}, names: n.zones, state: newState()}
	for _, zone := range n.zones {
		d.zones[netip.MustParseAddr(n.address(zone))] = zone
	}
	d.paths.Go(d.run)
	// Packets come back from the device with addresses that belong elsewhere.
	for file, value := range map[string]string{"forwarding": "1", "rp_filter": "2"} {
		if err := os.WriteFile("/proc/sys/net/ipv4/conf/"+name+"/"+file, []byte(value), 0); err != nil {
			return nil, errors.Join(fmt.Errorf("prepare the device %s: %w", name, err), d.close())
		}
	}
	for _, step := range [][]string{
		{"link", "set", name, "up"}, {"route", "replace", "default", "dev", name, "table", n.slot.routes()},
	} {
		if err := run(ctx, "", "ip", step...); err != nil {
			return nil, errors.Join(err, d.close())
		}
	}
	return d, nil
}

// openTUN makes a TUN device.
func openTUN(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/net/tun, which weather needs: %w", err)
	}
	request, err := unix.NewIfreq(name)
	if err == nil {
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make the device %s: %w", name, err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), name), nil
}

// set changes the weather.
func (d *detour) set(s state) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state = s.clone()
}

// weather is the weather of one direction.
func (d *detour) weather(p pair) Weather {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state.between(d.names, p)
}

// close takes the device away.
func (d *detour) close() error {
	err := d.device.Close()
	d.paths.Wait()
	return err
}

// run takes packets from the device and queues them by direction until close.
func (d *detour) run() {
	paths := map[pair]*path{}
	queues := map[pair]chan parcel{}
	defer func() {
		for _, queue := range queues {
			close(queue)
		}
	}()
	for {
		data := make([]byte, detourPacket)
		n, err := d.device.Read(data)
		if err != nil {
			return
		}
		p, ok := d.direction(data[:n])
		if !ok {
			continue
		}
		if queues[p] == nil {
			queue := make(chan parcel, detourQueue)
			paths[p], queues[p] = &path{}, queue
			d.paths.Go(func() { d.deliver(queue) })
		}
		due, arrives := paths[p].pass(time.Now(), d.weather(p))
		if !arrives {
			d.lost.Add(1)
			continue
		}
		select {
		case queues[p] <- parcel{due, data[:n]}:
		default: // as in a router whose memory is full
			d.lost.Add(1)
		}
	}
}

// direction reads the addresses of an IPv4 packet.
func (d *detour) direction(packet []byte) (pair, bool) {
	if len(packet) < 20 || packet[0]>>4 != 4 {
		return pair{}, false
	}
	from, known := d.zones[netip.AddrFrom4([4]byte(packet[12:16]))]
	to, knownToo := d.zones[netip.AddrFrom4([4]byte(packet[16:20]))]
	return pair{from, to}, known && knownToo
}

// deliver sends the packets of one direction on when they are due.
func (d *detour) deliver(queue <-chan parcel) {
	for p := range queue {
		time.Sleep(time.Until(p.due))
		// It fails when the device is closed, and then nothing matters.
		_, _ = d.device.Write(p.data)
		d.late.Add(1)
	}
}

func (n *namespaces) weathered() (late, lost int64) {
	if n.detour == nil {
		return 0, 0
	}
	return n.detour.late.Load(), n.detour.lost.Load()
}

// routes names the slot's own routing table and the rules that lead to it.
func (s *slot) routes() string { return strconv.Itoa(20000 + s.number) }

// divert routes traffic between zones that have weather to the detour, and all
// other traffic straight to its destination.
func (n *namespaces) divert(ctx context.Context, s state) error {
	if n.detour == nil {
		if len(s.bad(n.zones)) == 0 {
			return nil
		}
		var err error
		if n.detour, err = n.openDetour(ctx); err != nil {
			return err
		}
	}
	n.detour.set(s)
	if err := n.slot.clearRules(ctx); err != nil {
		return err
	}
	for _, p := range s.bad(n.zones) {
		rule := []string{"rule", "add", "pref", n.slot.routes(), "iif", n.slot.veth(n.index(p.from)),
			"to", n.subnet(p.to) + ".0/24", "lookup", n.slot.routes()}
		if err := run(ctx, "", "ip", rule...); err != nil {
			return err
		}
	}
	return nil
}

// clearRules removes the rules that lead to the slot's own routing table.
func (s *slot) clearRules(ctx context.Context) error {
	for {
		rules, err := output(ctx, "", "ip", "rule", "show", "pref", s.routes())
		if err != nil || rules == "" {
			return err
		}
		if err := run(ctx, "", "ip", "rule", "delete", "pref", s.routes()); err != nil {
			return err
		}
	}
}
