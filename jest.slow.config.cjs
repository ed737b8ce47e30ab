/** The tests that kill processes many times or move large amounts of data: `npm run test:slow`. */
const config = require('./jest.config.cjs');

module.exports = {
  ...config,
  testMatch: ['**/*.slow.test.ts'],
  testPathIgnorePatterns: config.testPathIgnorePatterns.filter((pattern) => !pattern.includes('slow')),
};
