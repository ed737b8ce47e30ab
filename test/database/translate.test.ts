import { postgres } from '../../src/database/engines/postgres';
import { sqlite } from '../../src/database/engines/sqlite';
import { translated } from '../../src/database/translate';

describe('what the engines say of their disk', () => {
  it.each([
    [sqlite, 'SQLITE_FULL', 'storage_full', 10_000],
    [postgres, '53100', 'storage_full', 10_000],
    [sqlite, 'SQLITE_READONLY_DBMOVED', 'storage_read_only', 10_000],
    [sqlite, 'SQLITE_IOERR_FSYNC', 'database_unavailable', 1000],
    [postgres, '25006', 'storage_read_only', 10_000],
    [postgres, '58030', 'database_unavailable', 1000],
    [sqlite, 'SQLITE_CORRUPT', 'database_damaged', undefined],
    [postgres, 'XX001', 'database_damaged', undefined],
    [postgres, 'XX002', 'database_damaged', undefined],
  ])('$1 is $2', (dialect, code, reason, retryAfterMs) => {
    const cause = Object.assign(new Error('the words of the engine'), { code });
    expect(translated(dialect, cause)).toMatchObject({ kind: 'unavailable', reason, retryAfterMs, cause });
  });

  it('a damaged index of names is no damaged database', () => {
    const error = Object.assign(new Error('x'), { code: 'SQLITE_CORRUPT_VTAB' });
    expect(translated(sqlite, error)).toMatchObject({ reason: 'database_unavailable', cause: error });
  });
});
