import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MemoryLog } from '../support/edge';
import { plantroomServe } from '../support/commandLine';
import { HttpClient, type HttpAnswer } from '../support/http';
import { readDescriptorUsage, watchDescriptors } from '../../src/observability';
import { COMMANDS, DEVICES, getId, getReason } from './site';

describe('without free file descriptors', () => {
  it('the server stores data of connected clients, reports what it cannot do, and accepts new clients after others have left', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'plantroom-descriptors-'));
    const keyFile = join(folder, 'key.json');
    const listening = {
      PLANTROOM_GRPC_LISTEN: '127.0.0.1:0',
      PLANTROOM_HTTP_LISTEN: '127.0.0.1:0',
      PLANTROOM_METRICS_LISTEN: 'off',
      PLANTROOM_DATABASE_DISK_RESERVE_MIB: '0',
      PLANTROOM_TLS_MODE: 'off',
    };
    const server = await plantroomServe(
      { ...listening, PLANTROOM_DATA_DIR: join(folder, 'data'), PLANTROOM_BOOTSTRAP_KEY_FILE: keyFile },
      'ulimit -n 64; exec "$@"',
    );
    const sockets: Socket[] = [];
    try {
      const { organizationId, apiKey } = JSON.parse(readFileSync(keyFile, 'utf8')) as {
        organizationId: string;
        apiKey: string;
      };
      const address = String(server.ready['http']);
      const client = (): HttpClient =>
        new HttpClient(address, undefined, { 'x-api-key': apiKey, 'x-organization-id': organizationId });
      const connected = client();
      const create = async (name: string): Promise<HttpAnswer> =>
        await connected.send('POST', `/${DEVICES}/CreateDigitalDevice`, { body: { name } });
      const id = getId(await create('First'));

      const [grpc, http] = [server.ready['grpc'], address].map((text) => Number(String(text).split(':')[1])) as [
        number,
        number,
      ];
      const rejectedSockets = new Set<Socket>();
      // The system accepts connections before the server handles them, so the server rejects them later.
      await new Promise<void>((resolve) => {
        for (let count = 0; count < 120; count += 1) {
          const socket = connect(count % 2 === 0 ? grpc : http, '127.0.0.1');
          sockets.push(socket);
          socket
            .on('error', () => {})
            .on('close', () => {
              if (rejectedSockets.add(socket).size === 10) resolve();
            });
        }
      });

      // enough for a thread to checkpoint the log
      for (let count = 0; count < 30; count += 1) getId(await create(`Device ${count}`));
      const preview = await connected.send('POST', `/${COMMANDS}/PreviewEncoder`, {
        body: { id, customEncoder: 'function encodeDownlink() { return { bytes: [1] }; }' },
      });
      expect([200, 503]).toContain(preview.status);
      expect(['', 'codec_unavailable']).toContain(getReason(preview));

      for (const socket of sockets.splice(0)) socket.destroy();
      const later = client();
      let answer: HttpAnswer | undefined;
      for (let tries = 0; !answer && tries < 100; tries += 1)
        answer = await later.send('POST', `/${DEVICES}/ListDigitalDevices`, { body: {} }).catch(() => undefined);
      expect(answer?.json).toMatchObject({ total: 31 });
      connected.close();
      later.close();
      expect(await server.stop()).toBe(0);
    } finally {
      for (const socket of sockets) socket.destroy();
      server.child.kill('SIGKILL');
      rmSync(folder, { recursive: true, force: true });
    }
  });

  it('the log reports it once', async () => {
    const log = new MemoryLog();
    const found = await readDescriptorUsage();
    expect(found).toMatchObject({ open: expect.any(Number) as number, max: expect.any(Number) as number });
    const stop = watchDescriptors({ log, checkIntervalMs: 1, minFree: (found?.max ?? 0) + 1 });
    await log.until('server.descriptors_used_up');
    stop();
    expect(log.of('server.descriptors_used_up')).toEqual([
      {
        open: expect.any(Number) as number,
        max: found?.max,
        message: expect.stringContaining('LimitNOFILE') as string,
      },
    ]);
  });
});
