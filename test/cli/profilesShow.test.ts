import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { plantroomHere } from '../support/commandInProcess';
import type { Ended } from '../support/commandLine';
import {
  DECODER,
  DOWNLINK_DECODER,
  ENCODER,
  VALVE_CODEC,
  exampleChirpStack,
  exampleLorawanDevices,
} from '../support/profileFolders';

const [CLIMATE, VALVE] = ['northmoor/climate-1/1.10/EU868', 'northmoor/valve-2/2.0/EU868'];

describe('plantroom profiles show --codec --role', () => {
  let folder: string;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'plantroom-cli-'));
    await run('migrate');
    await run('profiles', 'import', exampleLorawanDevices(join(folder, 'lorawan-devices')));
    await run('profiles', 'import', exampleChirpStack(join(folder, 'chirpstack-device-profiles')));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const run = async (...args: string[]): Promise<Ended> =>
    await plantroomHere([...args, '--data-dir', join(folder, 'data')]);
  const show = async (...args: string[]): Promise<Ended> => await run('profiles', 'show', ...args);

  it.each([
    ['encoder', 'climate-encoder.js', ENCODER],
    ['decoder', 'climate-decoder.js', DECODER],
    ['downlinkDecoder', 'climate-downlink.js', DOWNLINK_DECODER],
  ])('prints the %s file unchanged, also without --codec', async (role, file, text) => {
    for (const args of [
      ['--codec', '--role', role],
      ['--role', role],
    ])
      expect(await show(CLIMATE, ...args)).toMatchObject({ code: 0, stdout: text, stderr: '' });
    expect(JSON.parse((await show(CLIMATE, '--role', role, '--json')).stdout)).toEqual({
      id: CLIMATE,
      role,
      file,
      codec: text,
    });
    const whole = await show(CLIMATE, '--codec');
    expect(whole.stdout).toContain(text);
    expect(whole.stdout).not.toBe(text);
  });

  it('prints the same file for each of its roles, and the whole codec if it has a single file', async () => {
    for (const role of ['encoder', 'decoder']) expect((await show(VALVE, '--role', role)).stdout).toBe(VALVE_CODEC);
    expect((await show(VALVE, '--codec')).stdout).toBe(`${VALVE_CODEC}\n`);
  });

  it('prints the file whose lines `codec run` names in errors', async () => {
    const file = join(folder, 'encoder.js');
    writeFileSync(file, (await show(CLIMATE, '--codec', '--role', 'encoder')).stdout);
    const { code, stdout } = await plantroomHere(['codec', 'run', '--script', file, '--input', 'null', '--json']);
    expect([code, JSON.parse(stdout)]).toEqual([
      1,
      expect.objectContaining({ error: expect.objectContaining({ code: 'runtime_error', lineNumber: 4 }) }),
    ]);
  });

  it('reports a role that the profile does not have, and lists the existing roles', async () => {
    expect(await show(VALVE, '--codec', '--role', 'downlinkDecoder')).toMatchObject({
      code: 1,
      stdout: '',
      stderr: `plantroom: profile "${VALVE}" has no downlink decoder; omit --role to see the complete codec\n`,
    });
    expect(await show('harrowgate/tag-5/1.0/EU868', '--role', 'decoder')).toMatchObject({
      code: 1,
      stdout: '',
      stderr: 'plantroom: profile "harrowgate/tag-5/1.0/EU868" has no codec\n',
    });
    expect(await show(VALVE, '--role', 'uplinkDecoder')).toMatchObject({
      code: 2,
      stdout: '',
      stderr: expect.stringContaining('encoder, decoder, downlinkDecoder'),
    });
  });
});
