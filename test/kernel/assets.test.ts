import { readFileSync } from 'node:fs';
import { readAsset, assetPath } from '../../src/kernel/assets';

it('reads the program files of the build and explains how to restore a missing one', () => {
  expect(readAsset('image.binpb').equals(readFileSync(assetPath('image.binpb')))).toBe(true);
  expect(readAsset('docs/index.html').toString()).toContain('<html');
  expect(() => readAsset('nowhere.wasm')).toThrow('cannot find the program file nowhere.wasm: run npm run build');
});
