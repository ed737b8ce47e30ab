import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { engines } from '../support/engines';
import { waitUntil } from '../support/waitUntil';
import { DEVICES, getId, getReason, startSite } from './site';

const postgres = engines().find(({ name }) => name === 'postgres');

(postgres ? describe : describe.skip)('a PostgreSQL that takes no changes', () => {
  it('is reported to callers and to monitoring, and changes are accepted again automatically', async () => {
    const testDatabase = await postgres!.createDatabase();
    await testDatabase.database.close();
    const dataDir = mkdtempSync(join(tmpdir(), 'plantroom-postgres-disk-'));
    const admin = new Client({ connectionString: testDatabase.url });
    await admin.connect();
    const name = new URL(testDatabase.url).pathname.slice(1);
    const setReadOnly = async (to: 'on' | 'off'): Promise<void> =>
      void (await admin.query(`alter database "${name}" set default_transaction_read_only = ${to}`));
    const site = await startSite(dataDir, {
      flags: { 'database.url': testDatabase.url, 'metrics.listen': '127.0.0.1:0' },
    });
    const create = async () => await site.call(`${DEVICES}/CreateDigitalDevice`, { name: 'Valve' });
    const page = async (path: string): Promise<string> =>
      await (await fetch(`http://${site.app.addresses.metrics}/${path}`)).text();
    try {
      const id = getId(await create());
      await setReadOnly('on');
      // Ends the connections of the pool, which notice nothing, but not the connection of the lease.
      await admin.query(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = $1 and application_name like 'plantroom server %'",
        [name],
      );
      await waitUntil(async () => getReason(await create()) === 'storage_read_only');
      expect((await site.call(`${DEVICES}/GetDigitalDevice`, { id })).status).toBe(200);
      expect(await page('readyz')).toContain('storage_read_only');
      expect(await page('metrics')).toContain('plantroom_storage_state{state="read_only"} 1');
      await setReadOnly('off');
      await site.log.until('disk.recovered');
      getId(await create());
      expect(site.log.of('disk.read_only')).toHaveLength(1);
    } finally {
      await admin.end();
      await site.stop();
      await testDatabase.drop();
      rmSync(dataDir, { recursive: true, force: true });
    }
  });
});
