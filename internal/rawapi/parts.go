// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package rawapi

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// How long the parts of an answer may be, in bytes. There is no bound on their sum: who reads
// a long list keeps what it needs of each object and forgets the rest.
const (
	// mostPart is how long an object may be: normally it takes at most 1.5 MiB where it is
	// stored.
	mostPart = 4 << 20
	// mostShort is how long an object may be that is read whole although nobody has asked for
	// it. It is also how much of a longer one is read to learn which one it is.
	mostShort = 64 << 10
)

// errTooLong says that a part of an answer is too long.
var errTooLong = fmt.Errorf("an object is longer than %d bytes: is this a Kubernetes API server?", mostPart)

// parts reads JSON values from a stream. It holds no more than one of them.
type parts struct {
	r    *bufio.Reader
	read int64 // bytes
	buf  []byte
}

func newParts(r io.Reader) *parts { return &parts{r: bufio.NewReaderSize(r, mostShort)} }

// next returns the first byte that is no space, without taking it.
func (p *parts) next() (byte, error) {
	for {
		b, err := p.r.Peek(1)
		if err != nil {
			return 0, err
		}
		if b[0] > ' ' {
			return b[0], nil
		}
		p.skip(1)
	}
}

func (p *parts) skip(n int) {
	_, _ = p.r.Discard(n) // they are in the buffer
	p.read += int64(n)
}

// punctuation takes the next byte, which must be one of these.
func (p *parts) punctuation(of string) (byte, error) {
	b, err := p.next()
	if err != nil {
		return 0, unexpected(err)
	}
	if !bytes.ContainsRune([]byte(of), rune(b)) {
		return 0, fmt.Errorf("%q stands where one of %q must: is this a Kubernetes API server?", b, of)
	}
	p.skip(1)
	return b, nil
}

// unexpected returns the error of a stream that ends within a value.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// value reads the next value. Once it is longer than mostShort, long says by its beginning how
// much of it to keep; nil means mostPart. The rest is read and dropped, and whole is false.
// The result is valid until the next call.
func (p *parts) value(long func(head []byte) (keep int, err error)) (raw []byte, whole bool, err error) {
	if _, err := p.next(); err != nil {
		return nil, false, err
	}
	if cap(p.buf) > 2*mostShort {
		p.buf = nil
	}
	p.buf = p.buf[:0]
	keep, asked, whole := mostShort, false, true
	for s := (scan{}); !s.over; {
		chunk, err := p.chunk()
		if err != nil && s.scalar && errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, false, unexpected(err)
		}
		n := s.take(chunk)
		kept := min(n, max(0, keep-len(p.buf)))
		p.buf = append(p.buf, chunk[:kept]...)
		if kept < n && !asked {
			asked = true
			if keep, err = mostPart, nil; long != nil {
				keep, err = long(p.buf)
			}
			if err != nil {
				return nil, false, err
			}
			more := min(n-kept, max(0, keep-len(p.buf)))
			p.buf = append(p.buf, chunk[kept:kept+more]...)
			kept += more
		}
		whole = whole && kept == n
		p.skip(n)
	}
	return p.buf, whole, nil
}

// chunk returns what is in the buffer, at least a byte.
func (p *parts) chunk() ([]byte, error) {
	if _, err := p.r.Peek(1); err != nil {
		return nil, err
	}
	return p.r.Peek(p.r.Buffered())
}

// scan finds the end of a JSON value. It does not check the value: who decodes it does.
type scan struct {
	depth                       int
	text, escaped, scalar, over bool
}

// take returns how many bytes of chunk belong to the value.
func (s *scan) take(chunk []byte) int {
	for i := 0; i < len(chunk); i++ {
		if s.text {
			switch {
			case s.escaped:
				s.escaped = false
			case chunk[i] == '\\':
				s.escaped = true
			case chunk[i] == '"':
				s.text = false
				s.over = s.depth == 0
			default:
				rest := bytes.IndexAny(chunk[i:], `"\`)
				if rest < 0 {
					return len(chunk)
				}
				i += rest - 1
			}
		} else {
			switch b := chunk[i]; {
			case b == '"' && !s.scalar:
				s.text = true
			case (b == '{' || b == '[') && !s.scalar:
				s.depth++
			case (b == '}' || b == ']') && s.depth > 0:
				s.depth--
				s.over = s.depth == 0
			case s.depth == 0 && (b <= ' ' || b == ',' || b == '}' || b == ']' || b == ':'):
				s.over = true
				return i // a number or a word ends before it
			case s.depth == 0:
				s.scalar = true
			}
		}
		if s.over {
			return i + 1
		}
	}
	return len(chunk)
}

// object reads an object, and calls each for every member when its value is next. each must
// take that value.
func (p *parts) object(each func(key string) error) error {
	if _, err := p.punctuation("{"); err != nil {
		return err
	}
	for {
		if b, err := p.next(); err == nil && b == '}' {
			p.skip(1)
			return nil
		}
		key, _, err := p.value(nil)
		if err != nil {
			return unexpected(err)
		}
		var name string
		if err := json.Unmarshal(key, &name); err != nil {
			return fmt.Errorf("%.100q is not the name of a member: is this a Kubernetes API server?", key)
		}
		if _, err := p.punctuation(":"); err != nil {
			return err
		}
		if err := each(name); err != nil {
			return err
		}
		if b, err := p.punctuation(",}"); err != nil || b == '}' {
			return err
		}
	}
}

// array reads an array, or null, and calls each for every element when that is next. each must
// take it.
func (p *parts) array(each func() error) error {
	if b, err := p.next(); err == nil && b == 'n' {
		_, _, err = p.value(nil)
		return err
	}
	if _, err := p.punctuation("["); err != nil {
		return err
	}
	for {
		if b, err := p.next(); err == nil && b == ']' {
			p.skip(1)
			return nil
		}
		if err := each(); err != nil {
			return err
		}
		if b, err := p.punctuation(",]"); err != nil || b == ']' {
			return err
		}
	}
}

// identity is which object the beginning of one is about.
type identity struct {
	kind                                  string // of the event
	name, namespace, uid, resourceVersion string
}

func (i identity) known() bool { return i.name != "" && i.resourceVersion != "" }

// identify returns which object a JSON text begins with: an object of the API, or an event with
// one. An API server writes that before everything that somebody may have made long.
func identify(head []byte, event bool) identity {
	var id identity
	texts := map[string]*string{
		"metadata/name": &id.name, "metadata/namespace": &id.namespace, "metadata/uid": &id.uid, "metadata/resourceVersion": &id.resourceVersion,
	}
	if event {
		texts = map[string]*string{
			"type": &id.kind, "object/metadata/name": &id.name, "object/metadata/namespace": &id.namespace, "object/metadata/uid": &id.uid, "object/metadata/resourceVersion": &id.resourceVersion,
		}
	}
	tokens := json.NewDecoder(bytes.NewReader(head))
	var path []string // of the members that are open
	isKey := false    // whether the next text is the name of a member
	key := ""
	for {
		token, err := tokens.Token()
		if err != nil {
			return id
		}
		switch t := token.(type) {
		case json.Delim:
			switch t {
			case '{':
				path, isKey = append(path, key), true
				continue
			case '[':
				return id // what identifies an object comes before any array
			default:
				if path = path[:len(path)-1]; len(path) == 0 {
					return id
				}
			}
		case string:
			if isKey {
				key, isKey = t, false
				continue
			}
			at := key
			for i := len(path) - 1; i > 0; i-- {
				at = path[i] + "/" + at
			}
			if text := texts[at]; text != nil && *text == "" {
				*text = t
			}
		}
		isKey = true
	}
}
