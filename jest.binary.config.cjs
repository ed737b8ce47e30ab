/** The tests of the single binary that `npm run build:binary` made: `npm run test:binary`. */
module.exports = {
  ...require('./jest.config.cjs'),
  testPathIgnorePatterns: ['/node_modules/'],
  testMatch: ['**/test/binary/**/*.test.ts'],
  globalSetup: undefined,
  globalTeardown: undefined,
};
