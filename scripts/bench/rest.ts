import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fill, richDevice } from './fleet';
import type { Measured } from './load';
import { compare, type Row, say, short, type Subject } from './measure';
import { PlantroomServer } from './plantroomServer';
import { onceRest, runRest, type RestLoad } from './restLoad';
import { ServerProcess } from './serverProcess';

const rounds = short ? 3 : 9;
const FLEET = 1000;
// Until what is called often is compiled.
const WARM_MS = short ? 1500 : 6000;

/** What a small call over HTTP/1.1 costs, against fastify alone that answers the same JSON, with TLS as it is by default; the other ways for information. */
export async function benchRest(): Promise<void> {
  const server = await PlantroomServer.start();
  try {
    await fill(server, server.key, FLEET, (text) => say(`  ${text}`));
    const common = { address: server.process.ready.http ?? '', ca: server.ca, headers: server.headers(), verb: 'GET', status: 200, concurrency: 32 };
    const path = `/api/v2/devices/${await richDevice(server, server.key)}`;
    const { text, etag } = await onceRest({ ...common, path });
    const file = join(server.folder, 'device.json');
    writeFileSync(file, text);
    const echo = await ServerProcess.start(join(__dirname, 'bench-rest-echo.js'), [file, join(server.folder, 'data', 'tls')]);
    try {
      say(`\nGET device, ${Buffer.byteLength(text)} bytes of JSON, 32 at once, in turns`);
      const pair = [
        subject('bare fastify echo, HTTP/1.1, TLS', echo, { ...common, address: echo.ready.http ?? '', path }),
        subject('GET device, HTTP/1.1, TLS', server.process, { ...common, path }),
      ];
      for (const { load } of pair) await load(WARM_MS); // a server that runs for years is warm
      const rows = await compare(pair, rounds);
      const [yardstick, get] = rows as [Row, Row];
      say(`  -> ${get.name}: ${(get.perSecond / yardstick.perSecond).toFixed(2)} of the echo's calls/s (goal: 0.60), ${(yardstick.cpu / get.cpu).toFixed(2)} by CPU time\n`);
      await compare([
        subject('GET device that is known (304), HTTP/1.1, TLS', server.process, { ...common, path, status: 304, headers: { ...common.headers, 'if-none-match': etag ?? '' } }),
        subject('GET device, HTTP/2, TLS', server.process, { ...common, path, isHttp2: true }),
        subject('GET devices, 50 of 1000, HTTP/1.1, TLS', server.process, { ...common, path: '/api/v2/devices' }),
        subject('POST device, HTTP/1.1, TLS', server.process, { ...common, path: '/api/v2/devices', verb: 'POST', body: (n) => JSON.stringify({ name: `Valve ${n}` }) }),
      ], rounds);
    } finally {
      await echo.stop();
    }
  } finally {
    await server.remove();
  }
}

function subject(name: string, server: ServerProcess, load: RestLoad): Subject & { load: (milliseconds: number) => Promise<Measured> } {
  return { name, server, load: async (milliseconds) => await runRest(load, milliseconds) };
}
