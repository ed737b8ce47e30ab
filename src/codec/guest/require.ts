import { define } from './define';

/** `require` of the scripts: published codecs ask it for `Buffer`, which is laid before. Exported, because the bundle is smaller for a module with exports. */
export const requireGlobals = { require: makeRequire((globalThis as { Buffer?: unknown }).Buffer) };

function makeRequire(Buffer: unknown): (name: unknown) => unknown {
  return function require(name) {
    if (name !== 'buffer') throw new Error('require knows only "buffer"');
    return { Buffer };
  };
}

define(requireGlobals);
