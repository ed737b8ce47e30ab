import { connect, type Socket } from 'node:net';
import { once } from 'node:events';
import { Readiness } from '../../src/api/health/readiness';
import { StatusPort } from '../../src/api/health/statusPort';
import { MemoryLog } from '../support/edge';

it('the metrics port answers while many idle clients are connected, and closes the oldest of them', async () => {
  const log = new MemoryLog();
  const port = new StatusPort({ readiness: new Readiness(), log });
  const { address } = await port.start('127.0.0.1:0');
  const sockets: Socket[] = [];
  try {
    for (let n = 0; n < 100; n += 1) {
      const socket = connect(Number(address.split(':')[1]), '127.0.0.1');
      sockets.push(socket.on('error', () => {}));
      await once(socket, 'connect');
    }
    const oldest = once(sockets[0] as Socket, 'close');
    const pages = [
      await fetch(`http://${address}/healthz`, { headers: { connection: 'close' } }),
      await fetch(`http://${address}/healthz`, { headers: { connection: 'close' } }),
    ];
    expect(await Promise.all(pages.map(async (page) => await page.json()))).toEqual([
      { status: 'ok' },
      { status: 'ok' },
    ]);
    await oldest;
    expect(sockets.at(-1)?.destroyed).toBe(false);
    expect(log.of('metrics.connection_limit_reached')).toHaveLength(1);
  } finally {
    for (const socket of sockets) socket.destroy();
    await port.stop();
  }
});
