/** What needs a PostgreSQL with its own tools, pg_dump and pg_restore: `npm run test:postgres`. */
module.exports = {
  ...require('./jest.config.cjs'),
  testPathIgnorePatterns: ['/node_modules/'],
  testMatch: ['**/test/postgres/**/*.test.ts'],
  globalSetup: '<rootDir>/test/support/postgresTools.globalSetup.cjs',
};
