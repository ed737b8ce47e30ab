import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { IMPLIED_SCOPES } from '../../src/kernel/scopes';

it('the comparison knows which scopes include a narrower one', () => {
  const { stdout } = spawnSync(
    process.execPath,
    [
      '--input-type=module',
      '-e',
      'import { IMPLIED_SCOPES } from "./scripts/protos/promises.mjs"; console.log(JSON.stringify(IMPLIED_SCOPES))',
    ],
    { encoding: 'utf8' },
  );
  expect(JSON.parse(stdout)).toEqual(IMPLIED_SCOPES);
});

it('each released version in the CHANGELOG has the protos of its release', () => {
  const versions = [...readFileSync('CHANGELOG.md', 'utf8').matchAll(/^## (\d+\.\d+\.\d+)$/gm)].map(
    ([, version]) => version,
  );
  expect(versions).toContain('0.1.0');
  expect(readdirSync('proto-releases').toSorted()).toEqual(versions.map((version) => `${version}.binpb`).toSorted());
});
