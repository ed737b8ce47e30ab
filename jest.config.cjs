/** CommonJS output by esbuild: a transformer of our own, no Babel, no TypeScript API. */
module.exports = {
  testEnvironment: '<rootDir>/jest-environment.cjs',
  roots: ['<rootDir>/test'],
  testMatch: ['**/*.test.ts'],
  testPathIgnorePatterns: ['/node_modules/', '/test/brokers/', '/test/binary/', '/test/postgres/'], // they need a real broker, a binary, or PostgreSQL's tools: jest.{brokers,binary,postgres}.config.cjs
  transform: { '^.+\\.[cm]?[jt]s$': '<rootDir>/jest-esbuild.cjs' },
  globalSetup: '<rootDir>/test/support/postgres.globalSetup.cjs',
  globalTeardown: '<rootDir>/test/support/postgres.globalTeardown.cjs',
  maxWorkers: '100%', // of the cores; a larger percentage counts as a number of workers
  testTimeout: 30_000,
};
