package trace

// Next implements Reader.
func (c *compact) Next(e *Event) error {
	for c.left == 0 {
		if c.at != c.length {
			return c.corrupt("bad block", "%d bytes more than its events", c.length-c.at)
		}
		if err := c.nextBlock(); err != nil {
			return err
		}
	}
	tag := c.raw[c.at]
	c.at++
	since := c.uvarint()
	c.time += Micros(since)
	*e = Event{Time: c.time, Kind: Kind(tag & tagKind)}
	ok := since <= 1<<62 && c.time >= 0
	switch e.Kind {
	case Submit:
		ok = c.readSubmit(e, tag) && ok
	case End:
		ok = c.readEnd(e, tag) && ok
	case MachineAdd, MachineRemove, MachineUpdate:
		ok = c.readMachine(e, tag) && ok
	default:
		ok = false
	}
	if !ok || c.at > c.length {
		return c.corrupt("bad event", "event %d, in block %d", c.events, c.blocks-1)
	}
	c.left--
	c.events++
	return nil
}

// uvarint reads a varint. It need not check for the end of the block, because zeros follow the block in memory. Next checks once per event
// that the event was within the block.
func (c *compact) uvarint() uint64 {
	b := c.raw[c.at]
	c.at++
	if b < 0x80 {
		return uint64(b)
	}
	u := uint64(b & 0x7f)
	for shift := 7; shift < 64; shift += 7 {
		b = c.raw[c.at]
		c.at++
		u |= uint64(b&0x7f) << shift
		if b < 0x80 {
			break
		}
	}
	return u
}

func (c *compact) readSubmit(e *Event, tag byte) bool {
	e.Job = c.job + uint64(unzigzag(c.uvarint()))
	e.Task = c.task + uint32(unzigzag(c.uvarint()))
	number := c.uvarint()
	var s shape
	if tag&tagNewShape != 0 {
		if !c.newShape(&s, number) {
			return false
		}
	} else {
		if number >= uint64(len(c.shapes)) {
			return false
		}
		s = c.shapes[number]
	}
	e.CPU, e.Memory, e.Class, e.Priority, e.Flags = s.cpu, s.memory, s.class, s.priority, s.flags
	e.Container = c.submit(e.Job, e.Task)
	return true
}

// newShape reads a shape that a Submit contains. The first maxShapes shapes get a number, by which later Submits refer to them. A Submit
// with any other shape contains the shape itself.
func (c *compact) newShape(s *shape, number uint64) bool {
	cpu, memory := c.uvarint(), c.uvarint()
	rest := c.raw[c.at:]
	c.at += 3
	*s = shape{int32(cpu), int32(memory), rest[0], rest[1], Flags(rest[2])}
	ok := fitsInt32(cpu) && fitsInt32(memory) && int(s.class) < len(c.tail.Header.Classes) && number == uint64(len(c.shapes))
	if len(c.shapes) < maxShapes {
		c.shapes = append(c.shapes, *s)
	}
	return ok
}

func (c *compact) readEnd(e *Event, tag byte) bool {
	slot := c.uvarint()
	s, ok := c.end(slot)
	e.Container, e.Job, e.Task = uint32(slot), s.job, s.task
	e.Reason = Reason(tag >> tagReason)
	return ok && e.Reason <= Lost
}

func (c *compact) readMachine(e *Event, tag byte) bool {
	number := c.uvarint()
	if tag&tagAtStart != 0 {
		e.Flags = AtStart
	}
	e.Machine = uint32(number)
	if e.Kind != MachineRemove {
		cpu, memory := c.uvarint(), c.uvarint()
		if !fitsInt32(cpu) || !fitsInt32(memory) {
			return false
		}
		e.CPU, e.Memory = int32(cpu), int32(memory)
	}
	if number > uint64(c.machines) || number == uint64(c.machines) && e.Kind != MachineAdd {
		return false
	}
	c.machines = max(c.machines, uint32(number)+1)
	return true
}
