import { postgres } from '../../src/database/engines/postgres';
import { sqlite } from '../../src/database/engines/sqlite';
import { translateError } from '../../src/database/translate';

describe('disk errors of the engines', () => {
  it.each([
    [sqlite, 'SQLITE_FULL', 'storage_full', 10_000],
    [postgres, '53100', 'storage_full', 10_000],
    [sqlite, 'SQLITE_READONLY_DBMOVED', 'storage_read_only', 10_000],
    [sqlite, 'SQLITE_IOERR_FSYNC', 'database_unavailable', 1000],
    [postgres, '25006', 'storage_read_only', 10_000],
    [postgres, '58030', 'database_unavailable', 1000],
    [sqlite, 'SQLITE_CORRUPT', 'database_corrupt', undefined],
    [postgres, 'XX001', 'database_corrupt', undefined],
    [postgres, 'XX002', 'database_corrupt', undefined],
  ])('$1 is $2', (dialect, code, reason, retryAfterMs) => {
    const cause = Object.assign(new Error('the words of the engine'), { code });
    expect(translateError(dialect, cause)).toMatchObject({ kind: 'unavailable', reason, retryAfterMs, cause });
  });

  it('a corrupt index of names is not a corrupt database', () => {
    const error = Object.assign(new Error('x'), { code: 'SQLITE_CORRUPT_VTAB' });
    expect(translateError(sqlite, error)).toMatchObject({ reason: 'database_unavailable', cause: error });
  });
});
