package apps

import (
	"encoding/binary"
	"io"
	"net"
)

// message is the size of a message in bytes. The answer to a message has 8 bytes.
const message = 64 << 10

// send sends messages to a server in the same process, and waits for the answer to each.
func send(messages int, _ string) (sum uint64, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	served := make(chan error, 1)
	go func() { served <- serve(listener) }()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		return 0, err
	}
	data := make([]byte, message)
	for i := range messages {
		binary.LittleEndian.PutUint64(data, uint64(i))
		binary.LittleEndian.PutUint64(data[message-8:], uint64(i))
		if _, err := conn.Write(data); err != nil {
			return 0, err
		}
		if _, err := io.ReadFull(conn, data[:8]); err != nil {
			return 0, err
		}
		sum += binary.LittleEndian.Uint64(data)
	}
	if err := conn.Close(); err != nil {
		return 0, err
	}
	return sum, <-served
}

// serve answers each message of a client with the sum of the message's first and last number.
func serve(listener net.Listener) error {
	conn, err := listener.Accept()
	if err != nil {
		return err
	}
	defer conn.Close()
	data := make([]byte, message)
	for {
		if _, err := io.ReadFull(conn, data); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		answer := binary.LittleEndian.Uint64(data) + binary.LittleEndian.Uint64(data[message-8:])
		if err := binary.Write(conn, binary.LittleEndian, answer); err != nil {
			return err
		}
	}
}
