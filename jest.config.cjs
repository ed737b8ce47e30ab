/** CommonJS output by esbuild: a transformer of our own, no Babel, no TypeScript API. */
module.exports = {
  testEnvironment: '<rootDir>/jest-environment.cjs',
  roots: ['<rootDir>/test'],
  testMatch: ['**/*.test.ts'],
  testPathIgnorePatterns: ['/node_modules/', '/test/brokers/'], // they need a real broker: jest.brokers.config.cjs
  transform: { '^.+\\.[cm]?[jt]s$': '<rootDir>/jest-esbuild.cjs' },
  globalSetup: '<rootDir>/test/support/postgres.globalSetup.cjs',
  globalTeardown: '<rootDir>/test/support/postgres.globalTeardown.cjs',
  maxWorkers: '100%',
  testTimeout: 30_000,
};
