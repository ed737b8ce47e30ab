import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { startServer } from '../../src/server';
import { loadConfig } from '../../src/config';
import { listConnectionsWithLostSecrets } from '../../src/connections';
import { MIGRATIONS } from '../../src/database/migrations';
import { systemClock } from '../../src/kernel/clock';
import { parseSecretKey } from '../../src/kernel/parseSecretKey';
import { silentLogger } from '../../src/kernel/logger';
import { engines, type TestDatabase } from '../support/engines';
import { insertRelease, releases, rowText, rowTexts, type Release } from '../support/releasedSchemas';

/** SHA-256 of each migration that a released program contains. */
const RELEASED: Readonly<Record<string, string>> = {
  '0001_first_light': '7789fcbee6295f615e7f9ac7859febadc425cf604f3911e0805d6aa5612c7f4e',
  '0002_executions_in_full': '878a5c2c351521b60fe0ff0e77f339f3c1a27edf0068a2bdb5fa0d46cfed6f27',
  '0003_transports_and_telemetry': '5caa44fc24c09b97cb1bd1e7df7f3c0354279954e4492d11a479ebd5e6e7610c',
  '0004_images_and_etags': 'a9377dadc9d007827680409cb31581a40816087fdc4ae5f9fd8e0f74203dd262',
  '0005_people_keys_and_audit': '309ace62263a7fdfb7aa0eee2570b82e104677c2418d5751ac289b50f1acb43c',
  '0006_device_profiles': 'be9e6a780c016a7afe7721a6d39ce3adc78861714308ea6714117592425536f1',
};

describe('released migrations', () => {
  it('never change, because databases have them as they were', () => {
    const folder = join(__dirname, '../../src/database/migrations');
    const changed = Object.entries(RELEASED).filter(
      ([name, digest]) =>
        createHash('sha256')
          .update(readFileSync(join(folder, `${name}.ts`)))
          .digest('hex') !== digest,
    );
    const sentences = changed.map(
      ([name]) =>
        `${name} was released, so there are databases that have it as it was: put it back, and make a new migration after ${MIGRATIONS.at(-1)?.name ?? ''} for what has to change`,
    );
    expect(sentences).toEqual([]);
  });

  it('have a database that a program of their time filled', () => {
    expect(releases().map(({ schema }) => schema)).toEqual(Object.keys(RELEASED));
    expect(MIGRATIONS.map(({ name }) => name).slice(0, Object.keys(RELEASED).length)).toEqual(Object.keys(RELEASED));
  });
});

describe.each(engines())('a database on $name', (engine) => {
  it.each(releases().map((release) => [release.schema, release] as const))(
    'of %s keeps its rows when it is migrated to the current schema',
    async (schema, release) => {
      const last = MIGRATIONS.findIndex(({ name }) => name === schema);
      const test = await engine.createEmpty(MIGRATIONS.slice(0, last + 1));
      try {
        await test.database.migrate();
        await insertRelease(test.database, test.dataDir, release);
        const today = await test.open({ migrations: MIGRATIONS });
        expect((await today.migrate()).applied).toEqual(MIGRATIONS.slice(last + 1).map(({ name }) => name));
        for (const { table, rows } of release.tables) {
          const columns = Object.keys(rows[0] ?? {});
          expect(await rowTexts(today, table, columns)).toEqual(
            expect.arrayContaining(rows.map((row) => rowText(row, columns))),
          );
        }
        expect(await listConnectionsWithLostSecrets(today, parseSecretKey(release.secretsKey))).toEqual([]);
        await today.close();
        await test.database.close();
        // The schema is the same now for each origin. Differences can only show on one engine, and on the longest path
        // of the other.
        if (engine.name === 'sqlite' || last === 0)
          expect(await listDevices(test, release)).toEqual(['Heating valve', 'Not bound yet', 'Relay']);
      } finally {
        await test.drop();
      }
    },
  );
});

/** Lists the names of the devices as the real server returns them to the key of that time. */
async function listDevices({ dataDir, url }: TestDatabase, { apiKey, organizationId }: Release): Promise<string[]> {
  const flags = {
    'data.dir': dataDir,
    'database.url': url,
    'grpc.listen': '127.0.0.1:0',
    'http.listen': '127.0.0.1:0',
    'metrics.listen': 'off',
    'tls.mode': 'off',
    'database.diskReserveMib': '0',
    'limits.shutdownTimeoutMs': '1000',
  };
  const app = await startServer(loadConfig({ file: false, env: {}, flags }).config, {
    log: silentLogger,
    clock: systemClock,
  });
  try {
    const answer = await fetch(`http://${app.addresses.http}/api/v2/devices`, {
      headers: { 'X-API-Key': apiKey, 'X-Organization-Id': organizationId, Connection: 'close' },
    });
    const { devices } = (await answer.json()) as { devices: { name: string }[] };
    return devices.map(({ name }) => name).toSorted();
  } finally {
    await app.stop();
  }
}
