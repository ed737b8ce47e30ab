import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeCheckout, PROFILES_PER_VENDOR, type CheckoutSize } from '../../test/support/manyProfiles';
import { richDevice } from './fleet';
import { argument, say, short } from './measure';
import { PlantroomServer } from './plantroomServer';
import { startPostgres } from './postgres';
import { benchImports, type Checkout } from './profileImports';
import { benchLookUps } from './profileLookUps';

const VENDORS = short ? 10 : 100;
/** Of the look-up; the rest of them is imported after what is measured. */
const ALL_VENDORS = short ? 25 : 250;

/** What an import of device profiles costs and who feels it, and what a look-up costs. On SQLite, and but for the short form on PostgreSQL. */
export async function benchProfiles(): Promise<void> {
  const engine = argument('--engine') ?? (short ? 'SQLite' : 'both');
  const folder = mkdtempSync(join(tmpdir(), 'plantroom-profiles-'));
  try {
    if (engine !== 'PostgreSQL') await onEngine('SQLite', folder, {});
    if (engine !== 'SQLite') await onPostgres(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function onPostgres(folder: string): Promise<void> {
  const postgres = await startPostgres();
  if (!postgres) return say('  PostgreSQL: the package with its program is not installed; left out');
  try {
    await onEngine('PostgreSQL', folder, { PLANTROOM_DATABASE_URL: postgres.url });
  } finally {
    await postgres.stop();
  }
}

async function onEngine(engine: string, folder: string, env: NodeJS.ProcessEnv): Promise<void> {
  const server = await PlantroomServer.start(env, { isPinned: false });
  try {
    say(`\nimport of ${VENDORS * PROFILES_PER_VENDOR} device profiles beside a server that answers, on all cores: ${engine}, TLS on (goals: 4,000 in under 60 s, p99 of a get under 50 ms)`);
    const checkouts = [checkout(folder, { layout: 'lorawan-devices', vendors: VENDORS }), checkout(folder, { layout: 'chirpstack-device-profiles', vendors: VENDORS, first: VENDORS })];
    const edition = checkout(folder, { layout: 'lorawan-devices', vendors: VENDORS, edition: 1 });
    const deviceId = await richDevice(server, server.key);
    await benchImports(server, deviceId, [...checkouts, { ...edition, name: `${edition.name}, every codec another one` }]);
    const rest = checkout(folder, { layout: 'lorawan-devices', vendors: ALL_VENDORS - 2 * VENDORS, first: 2 * VENDORS });
    await server.beside(['profiles', 'import', rest.folder, '--json']);
    await benchLookUps(server, env['PLANTROOM_DATABASE_URL'] ?? '', deviceId, ALL_VENDORS);
  } finally {
    await server.remove();
  }
}

function checkout(root: string, size: CheckoutSize): Checkout {
  const folder = join(root, `${size.layout}-${size.first ?? 0}-${size.edition ?? 0}`);
  makeCheckout(folder, size);
  return { name: size.layout, folder, profiles: size.vendors * PROFILES_PER_VENDOR };
}
