// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"bytes"
	"encoding/json"
	"sync"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// codec decodes the answers of a server as client-go does, but each Lease only once at a
// version, for all processes.
type codec struct {
	runtime.NegotiatedSerializer

	mu     sync.Mutex
	leases map[string]*coordinationv1.Lease // by their JSON
}

// mostDecoded is how many Leases a codec keeps.
const mostDecoded = 4096

func newCodec() *codec {
	return &codec{NegotiatedSerializer: scheme.Codecs.WithoutConversion(), leases: map[string]*coordinationv1.Lease{}}
}

// lease returns a Lease that nobody may change.
func (c *codec) lease(raw []byte) (*coordinationv1.Lease, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.leases[string(raw)]; l != nil {
		return l, nil
	}
	l := &coordinationv1.Lease{}
	if err := json.Unmarshal(raw, l); err != nil {
		return nil, err
	}
	if len(c.leases) == mostDecoded {
		clear(c.leases)
	}
	c.leases[string(raw)] = l
	return l, nil
}

// DecoderToVersion implements runtime.NegotiatedSerializer.
func (c *codec) DecoderToVersion(d runtime.Decoder, gv runtime.GroupVersioner) runtime.Decoder {
	return decoder{c.NegotiatedSerializer.DecoderToVersion(d, gv), c}
}

// decoder is the decoder of a codec.
type decoder struct {
	runtime.Decoder
	codec *codec
}

// Decode implements runtime.Decoder.
func (d decoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	switch into := into.(type) {
	case *coordinationv1.Lease:
		l, err := d.codec.lease(data)
		if err == nil {
			l.DeepCopyInto(into)
			into.SetGroupVersionKind(schema.GroupVersionKind{})
		}
		return into, defaults, err
	case *coordinationv1.LeaseList:
		return into, defaults, d.list(data, into)
	}
	return d.Decoder.Decode(data, defaults, into)
}

// list decodes a list of the server in memory, which writes one object in a line.
func (d decoder) list(data []byte, into *coordinationv1.LeaseList) error {
	lines := bytes.Split(data, []byte("\n"))
	last := len(lines) - 1
	if err := json.Unmarshal(append(bytes.Clone(lines[0]), lines[last]...), into); err != nil {
		return err
	}
	into.Items = make([]coordinationv1.Lease, last-1)
	for i := range into.Items {
		l, err := d.codec.lease(bytes.TrimSuffix(lines[i+1], []byte(",")))
		if err != nil {
			return err
		}
		l.DeepCopyInto(&into.Items[i])
	}
	return nil
}

func TestTheCodecDecodesAsClientGoDoes(t *testing.T) {
	lease := `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"a","annotations":{"x":"y"}},"spec":{"holderIdentity":"b","renewTime":"2026-01-02T03:04:05.678901Z"}}`
	list := `{"metadata":{"resourceVersion":"7"},"items":[` + "\n" + lease + ",\n" + lease + "\n]}"
	for _, into := range []func() runtime.Object{
		func() runtime.Object { return &coordinationv1.Lease{} }, func() runtime.Object { return &coordinationv1.LeaseList{} },
	} {
		data := lease
		if _, is := into().(*coordinationv1.LeaseList); is {
			data = list
		}
		c := newCodec()
		info, _ := runtime.SerializerInfoForMediaType(c.SupportedMediaTypes(), "application/json")
		gv := coordinationv1.SchemeGroupVersion
		want, _, err := c.NegotiatedSerializer.DecoderToVersion(info.Serializer, gv).Decode([]byte(data), nil, into())
		got, _, err2 := c.DecoderToVersion(info.Serializer, gv).Decode([]byte(data), nil, into())
		if a, b := mustJSON(t, want), mustJSON(t, got); err != nil || err2 != nil || a != b {
			t.Errorf("%v, %v: got\n%s, want\n%s", err, err2, b, a)
		}
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
