const { availableParallelism } = require('node:os');

/** CommonJS output by esbuild: a transformer of our own, no Babel, no TypeScript API. */
module.exports = {
  testEnvironment: '<rootDir>/jest-environment.cjs',
  testEnvironmentOptions: { globalsCleanup: 'off' }, // a worker ends after the run; nothing has to be collected before
  roots: ['<rootDir>/test'],
  testMatch: ['**/*.test.ts'],
  // Other commands run these: they need a real broker, a binary or PostgreSQL's tools (jest.{brokers,binary,postgres}.config.cjs),
  // or take long (jest.slow.config.cjs).
  testPathIgnorePatterns: [
    '/node_modules/',
    '/test/brokers/',
    '/test/binary/',
    '/test/postgres/',
    '\\.slow\\.test\\.ts$',
  ],
  transform: { '^.+\\.[cm]?[jt]s$': '<rootDir>/jest-esbuild.cjs' },
  globalSetup: '<rootDir>/test/support/postgres.globalSetup.cjs',
  globalTeardown: '<rootDir>/test/support/postgres.globalTeardown.cjs',
  maxWorkers: Math.ceil(availableParallelism() * 1.5), // many tests wait for a real time limit or another process
  workerIdleMemoryLimit: '1GB', // modules of finished files stay in memory
  workerGracefulExitTimeout: 30_000, // half a second, the default, is too short for a large heap on a busy machine
  testTimeout: 180_000, // ends a test that hangs, also on a machine that is five times slower
};
