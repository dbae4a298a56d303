"""The server's end of a port-forward: Kubernetes' channels in WebSocket frames (RFC 6455)."""

import base64
import hashlib
import select
import socket
import struct

MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
DATA, ERROR = b"\x00", b"\x01"


def port_forward(handler, query, target):
    """Upgrade, announce both channels, and carry bytes until either side ends."""
    accept = base64.b64encode(hashlib.sha1((handler.headers["Sec-WebSocket-Key"] + MAGIC).encode()).digest())
    handler.send_response(101)
    handler.send_header("Upgrade", "websocket")
    handler.send_header("Connection", "Upgrade")
    handler.send_header("Sec-WebSocket-Accept", accept.decode())
    handler.send_header("Sec-WebSocket-Protocol", "v4.channel.k8s.io")
    handler.end_headers()
    port = struct.pack("<H", int(query["ports"]))
    wire = handler.connection
    wire.sendall(frame(DATA + port) + frame(ERROR + port))
    handler.close_connection = True
    if target is None:
        wire.sendall(frame(ERROR + b"connection refused"))
        return
    with socket.create_connection(target) as pod:
        carry(wire, pod)


def carry(wire, pod):
    pending = b""
    while True:
        ready, _, _ = select.select([wire, pod], [], [], 5)
        if not ready:
            return
        if pod in ready:
            data = pod.recv(65536)
            if not data:
                wire.sendall(struct.pack("!BB", 0x88, 0))
                return
            wire.sendall(frame(DATA + data))
        if wire in ready:
            pending += wire.recv(65536)
            if not pending:
                return
            while (split := unframe(pending)) is not None:
                opcode, payload, pending = split
                if opcode == 8:
                    return
                pod.sendall(payload[1:])


def frame(payload):
    length = len(payload)
    head = struct.pack("!BB", 0x82, length) if length < 126 else struct.pack("!BBH", 0x82, 126, length)
    return head + payload


def unframe(data):
    """Opcode, payload and what follows; None while a frame is incomplete. A client's frames are masked."""
    if len(data) < 2:
        return None
    length, at = data[1] & 0x7F, 2
    if length == 126:
        length, at = struct.unpack("!H", data[2:4])[0], 4
    elif length == 127:
        length, at = struct.unpack("!Q", data[2:10])[0], 10
    end = at + 4 + length
    if len(data) < end:
        return None
    mask, body = data[at : at + 4], data[at + 4 : end]
    return data[0] & 0x0F, bytes(b ^ mask[i % 4] for i, b in enumerate(body)), data[end:]
