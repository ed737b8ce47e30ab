// A link between a program and the server that can be cut: what TLS carries goes through untouched.
import { once } from 'node:events';
import { connect, createServer } from 'node:net';

/** Opens a way to an address (`localhost:PORT`). `cut()` breaks what goes over it; `close()` lets nothing through until `open()`; `swallow()` breaks it without a word. */
export async function makeLink(address) {
  const port = Number(address.split(':')[1]);
  const sockets = new Set();
  let isOpen = true;
  let swallows = false;
  const server = createServer((near) => {
    if (!isOpen) {
      near.resetAndDestroy();
      return;
    }
    const far = connect(port, '127.0.0.1');
    for (const [from, to] of [[near, far], [far, near]]) {
      sockets.add(from);
      from.on('error', () => {}); // the other end tells it too
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
