import { readFileSync } from 'node:fs';
import { asset, assetPath } from '../../src/kernel/assets';

it("reads the program's files from where the build laid them, and says of one that is not there how it comes back", () => {
  expect(asset('image.binpb').equals(readFileSync(assetPath('image.binpb')))).toBe(true);
  expect(asset('docs/index.html').toString()).toContain('<html');
  expect(() => asset('nowhere.wasm')).toThrow("the program's file nowhere.wasm is missing; build it again (npm run build)");
});
