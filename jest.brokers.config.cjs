/** The tests that need a real broker: `npm run test:brokers`. SQLite alone; both engines are the business of `npm test`. */
module.exports = {
  ...require('./jest.config.cjs'),
  testPathIgnorePatterns: ['/node_modules/'],
  testMatch: ['**/test/brokers/**/*.test.ts'],
  globalSetup: '<rootDir>/test/support/mosquitto.globalSetup.ts',
  globalTeardown: undefined,
};
