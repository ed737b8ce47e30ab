// Starts a temporary PostgreSQL from the packages of Debian (apt-get install postgresql), whose pg_dump and pg_restore
// have its version, and puts them first on PATH.
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { startPostgres } = require('./postgres.globalSetup.cjs');

const ROOT = '/usr/lib/postgresql';

module.exports = async () => {
  const versions = fs.existsSync(ROOT)
    ? fs
        .readdirSync(ROOT)
        .filter((version) =>
          ['initdb', 'postgres', 'pg_dump', 'pg_restore'].every((tool) =>
            fs.existsSync(path.join(ROOT, version, 'bin', tool)),
          ),
        )
    : [];
  const newest = versions.toSorted((a, b) => Number(a) - Number(b)).at(-1);
  if (newest === undefined)
    throw new Error(`there is no PostgreSQL with its tools in ${ROOT}: apt-get install postgresql`);
  const native = path.join(ROOT, newest);
  const { url, keeper } = await startPostgres({ folder: os.tmpdir(), settings: ['fsync=off'], native });
  process.env.TEST_POSTGRES_URL = url;
  process.env.PATH = `${path.join(native, 'bin')}${path.delimiter}${process.env.PATH}`;
  globalThis.plantroomPostgres = keeper;
};
