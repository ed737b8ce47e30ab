/** CommonJS output by esbuild: a transformer of our own, no Babel, no TypeScript API. */
module.exports = {
  testEnvironment: '<rootDir>/jest-environment.cjs',
  testEnvironmentOptions: { globalsCleanup: 'off' }, // a worker ends after the run; nothing has to be collected before
  roots: ['<rootDir>/test'],
  testMatch: ['**/*.test.ts'],
  testPathIgnorePatterns: ['/node_modules/', '/test/brokers/', '/test/binary/', '/test/postgres/'], // they need a real broker, a binary, or PostgreSQL's tools: jest.{brokers,binary,postgres}.config.cjs
  transform: { '^.+\\.[cm]?[jt]s$': '<rootDir>/jest-esbuild.cjs' },
  globalSetup: '<rootDir>/test/support/postgres.globalSetup.cjs',
  globalTeardown: '<rootDir>/test/support/postgres.globalTeardown.cjs',
  maxWorkers: '100%', // of the cores; a larger percentage counts as a number of workers
  workerIdleMemoryLimit: '1GB', // modules of finished files stay in memory
  testTimeout: 60_000,
};
