import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { engines } from '../support/engines';
import { DEVICES, idOf, reasonOf, startSite } from './site';

const postgres = engines().find(({ name }) => name === 'postgres');

(postgres ? describe : describe.skip)('a PostgreSQL that takes no changes', () => {
  it('is told to callers and to who watches the server, and changes are taken again by themselves', async () => {
    const made = await postgres!.createDatabase();
    await made.database.close();
    const dataDir = mkdtempSync(join(tmpdir(), 'plantroom-postgres-disk-'));
    const admin = new Client({ connectionString: made.url });
    await admin.connect();
    const name = new URL(made.url).pathname.slice(1);
    const setReadOnly = async (to: 'on' | 'off'): Promise<void> => void (await admin.query(`alter database "${name}" set default_transaction_read_only = ${to}`));
    const site = await startSite(dataDir, { flags: { 'database.url': made.url, 'metrics.listen': '127.0.0.1:0' } });
    const create = async () => await site.call(`${DEVICES}/CreateDigitalDevice`, { name: 'Valve' });
    const page = async (path: string): Promise<string> => await (await fetch(`http://${site.app.addresses.metrics}/${path}`)).text();
    try {
      const id = idOf(await create());
      await setReadOnly('on');
      // Those of the pool, which know of nothing; not the one that keeps other servers off.
      await admin.query("select pg_terminate_backend(pid) from pg_stat_activity where datname = $1 and application_name = 'plantroom'", [name]);
      for (const end = Date.now() + 5000; reasonOf(await create()) !== 'storage_read_only'; ) if (Date.now() > end) throw new Error(JSON.stringify(await create()));
      expect((await site.call(`${DEVICES}/GetDigitalDevice`, { id })).status).toBe(200);
      expect(await page('readyz')).toContain('storage_read_only');
      expect(await page('metrics')).toContain('plantroom_storage_state{state="read_only"} 1');
      await setReadOnly('off');
      await site.log.until('disk.recovered');
      idOf(await create());
      expect(site.log.of('disk.read_only')).toHaveLength(1);
    } finally {
      await admin.end();
      await site.stop();
      await made.drop();
      rmSync(dataDir, { recursive: true, force: true });
    }
  });
});
