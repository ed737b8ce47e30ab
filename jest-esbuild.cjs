// The whole transformer: TypeScript and ESM to CommonJS for jest, cached by content.
const { createHash } = require('node:crypto');
const { transformSync, version } = require('esbuild');

const options = { format: 'cjs', target: 'node24', platform: 'node', sourcemap: 'inline', sourcesContent: false };
module.exports = {
  process: (source, file) => ({
    code: transformSync(source, { ...options, loader: file.endsWith('ts') ? 'ts' : 'js', sourcefile: file }).code,
  }),
  getCacheKey: (source, file) =>
    createHash('sha256')
      .update(version + JSON.stringify(options) + file)
      .update(source)
      .digest('hex'),
};
