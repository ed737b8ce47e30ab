import { define } from './define';

/**
 * `require` for published codecs, which load `Buffer` with it. The buffer prelude must be evaluated before this one.
 * Exported only because the bundle is smaller for a module with exports.
 */
export const requireGlobals = { require: makeRequire((globalThis as { Buffer?: unknown }).Buffer) };

function makeRequire(Buffer: unknown): (name: unknown) => unknown {
  return function require(name) {
    if (name !== 'buffer') throw new Error('require knows only "buffer"');
    return { Buffer };
  };
}

define(requireGlobals);
