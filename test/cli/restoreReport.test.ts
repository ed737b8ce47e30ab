import type { RestoreOptions } from '../../src/backup';
import { showRestoreDryRun, showRestored, showRollback } from '../../src/cli/operate/restoreReport';
import { silentLogger } from '../../src/kernel/logger';
import { TestClock } from '../support/testClock';

const createdAt = '2026-11-22T02:30:00.000Z';
const key = {
  id: 'key-1',
  organizationId: 'org-1',
  organizationName: 'Plant',
  ownerUserId: 'user-1',
  ownerName: 'Ann',
  name: 'Wall display',
  prefix: 'plr_123456',
  scopes: ['devices:read'],
  connectionIds: [],
  allConnections: false,
  note: '',
  restrictions: undefined,
  allowedAddresses: [],
  rotatedFrom: '',
  isAdmin: false,
  canActAsOwner: true,
  revision: 1,
  createdAt: 0,
  updatedAt: 0,
  expiresAt: undefined,
  revokedAt: undefined,
  lastUsedAt: undefined,
  lastUsedAddress: '',
};
const prepared = { schema: { before: '0011', after: '0011' }, rows: new Map(), executions: new Map(), keys: [key] };
const manifest = {
  format: 1,
  createdAt,
  program: { version: '0.3.0', commit: 'unknown' },
  schema: '0011',
  engine: 'SQLite',
  installationId: 'installation-1',
  members: [],
} as const;
const movedTo = 'plantroom.db.newer';

/** Returns what is printed, for a restore that does or does not revoke the keys. */
function report(show: (options: RestoreOptions) => void, revokesKeys: boolean): string {
  const texts: string[] = [];
  const spy = jest.spyOn(process.stdout, 'write').mockImplementation((text) => texts.push(String(text)) > 0);
  show({
    file: 'backup',
    dataDir: 'data',
    databaseUrl: '',
    passphrase: undefined,
    revokesKeys,
    clock: new TestClock(),
    log: silentLogger,
    onProgress: () => {},
    signal: new AbortController().signal,
  });
  spy.mockRestore();
  return texts.join('');
}

const showRestore = (options: RestoreOptions) =>
  showRestored({ ...prepared, manifest, configuration: undefined }, options, {});
const showDryRun = (options: RestoreOptions) => showRestoreDryRun({ manifest, prepared }, options, {});
const showRolledBack = (options: RestoreOptions) => showRollback({ ...prepared, createdAt, movedTo }, options, {});
const showRollbackDryRun = (options: RestoreOptions) => showRollback({ ...prepared, createdAt }, options, {});

describe('the report of a restore', () => {
  it.each([
    ['a restore', showRestore, 'are', 'backup', 'or restore again with'],
    ['a dry run', showDryRun, 'would be', 'backup', 'add'],
    ['a rollback', showRolledBack, 'are', 'copy', 'or restore again with'],
    ['a dry run of a rollback', showRollbackDryRun, 'would be', 'copy', 'add'],
  ])('says which keys are valid again, and which of them are revoked: %s', (_, show, verb, source, advice) => {
    const kept = report(show, false);
    expect(kept).toContain(
      `These API keys ${verb} valid again, including keys that were revoked after the ${source} was created`,
    );
    expect(kept).toContain(`${advice} --revoke-keys.`);
    const revoked = report(show, true);
    expect(revoked).toContain(`These API keys would be valid again; they ${verb} revoked:`);
    expect(revoked.includes('All keys are revoked. Create a new key')).toBe(verb === 'are');
  });
});
