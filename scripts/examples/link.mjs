// A TCP proxy between a program and the server that can be cut. TLS passes through unchanged.
import { once } from 'node:events';
import { connect, createServer } from 'node:net';

/**
 * Creates a proxy to an address (`localhost:PORT`). `cut()` breaks all connections; `close()` also rejects new ones until
 * `open()`; `swallow()` silently drops all data.
 */
export async function createLink(address) {
  const port = Number(address.split(':')[1]);
  const sockets = new Set();
  let isOpen = true;
  let swallows = false;
  const server = createServer((clientSocket) => {
    if (!isOpen) {
      clientSocket.resetAndDestroy();
      return;
    }
    const serverSocket = connect(port, '127.0.0.1');
    for (const [from, to] of [
      [clientSocket, serverSocket],
      [serverSocket, clientSocket],
    ]) {
      sockets.add(from);
      from.on('error', () => {}); // the other end reports it too
      from.once('close', () => {
        sockets.delete(from);
        to.destroy();
      });
      from.on('data', (bytes) => swallows || to.write(bytes));
    }
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const cut = () => {
    for (const socket of sockets) socket.resetAndDestroy();
  };
  return {
    address: `localhost:${server.address().port}`,
    cut,
    open: () => (isOpen = true),
    swallow: () => (swallows = true),
    close: () => {
      isOpen = false;
      cut();
    },
    end: () => {
      cut();
      server.close();
    },
  };
}
