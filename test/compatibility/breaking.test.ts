import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join, resolve } from 'node:path';

const env = { ...process.env, PATH: resolve('node_modules/.bin') + delimiter + process.env.PATH };
const COMMANDS = 'proto/actuator_command/v2/actuator_command_service.proto';

describe('what breaks those who have the protos of a release', () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'plantroom-breaking-'));
    for (const file of ['buf.yaml', 'scripts/breaking.sh', 'scripts/protos']) cpSync(file, join(folder, file), { recursive: true });
    symlinkSync(resolve('node_modules'), join(folder, 'node_modules'), 'junction');
  });
  beforeEach(() => {
    for (const room of ['proto', 'proto-releases']) rmSync(join(folder, room), { recursive: true, force: true });
    cpSync('proto', join(folder, 'proto'), { recursive: true });
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  const run = (command: string, ...args: string[]): { status: number | null; output: string } => {
    const { status, stdout, stderr } = spawnSync(command, args, { cwd: folder, env, encoding: 'utf8' });
    return { status, output: stdout + stderr };
  };
  const release = (version: string): { status: number | null; output: string } => run(process.execPath, 'scripts/protos/release.mjs', version);
  const breaking = (): { status: number | null; output: string } => run('sh', 'scripts/breaking.sh');
  const edit = (file: string, ...changes: readonly (readonly [string, string])[]): void => {
    const path = join(folder, file);
    const text = changes.reduce((before, [from, to]) => {
      expect(before).toContain(from);
      return before.replace(from, to);
    }, readFileSync(path, 'utf8'));
    writeFileSync(path, text);
  };

  it('is found, each by its name', () => {
    expect(release('0.9.0')).toMatchObject({ status: 0 });
    edit(
      COMMANDS,
      ['  string trigger_id = 2;', '  string trigger_id = 23;'], // another number
      ['  string command_name_snapshot = 4;', '  string command_name = 4;'], // another name, which is that in JSON
      ['  int32 attempts = 17;', '  string attempts = 17;'], // another type
      ['  string detail_message = 14;', ''], // gone
      ['  EXECUTION_STATE_UNCONFIRMED = 7;', ''],
      ['rpc GetCommand(GetCommandRequest) returns (Command)', 'rpc ReadCommand(GetCommandRequest) returns (Command)'],
    );
    const { status, output } = breaking();
    expect(status).not.toBe(0);
    for (const name of ['"trigger_id"', '"command_name_snapshot"', '"attempts"', '"detail_message"', '"EXECUTION_STATE_UNCONFIRMED"', '"GetCommand"']) expect(output).toContain(name);
    expect(release('0.10.0')).toMatchObject({ status: 1 });
  });

  it('is not what is only added', () => {
    expect(release('0.9.0')).toMatchObject({ status: 0 });
    edit(
      COMMANDS,
      ['  string trigger_id = 2;', '  string trigger_id = 2;\n  optional string added = 1000;'],
      ['  EXECUTION_STATE_UNCONFIRMED = 7;', '  EXECUTION_STATE_UNCONFIRMED = 7;\n  EXECUTION_STATE_ADDED = 1000;'],
      ['message Execution {', 'message Added {}\nmessage Execution {'],
      ['  rpc CreateCommand(', '  rpc AddedCommand(GetCommandRequest) returns (Command);\n  rpc CreateCommand('],
    );
    expect(breaking()).toEqual({ status: 0, output: 'protos against those of the release 0.9.0\n' });
  });

  it('is measured against the newest release, which is 0.10.0 after 0.9.0, and no release is written over', () => {
    release('0.9.0');
    edit(COMMANDS, ['  string trigger_id = 2;', '  string trigger_id = 2;\n  optional string added = 1000;']);
    expect(release('0.10.0')).toMatchObject({ status: 0 });
    edit(COMMANDS, ['\n  optional string added = 1000;', '']);
    expect(breaking()).toMatchObject({ status: 100, output: expect.stringContaining('"added"') });
    expect(release('0.10.0')).toMatchObject({ status: 1, output: expect.stringContaining('0.10.0 was released') });
    expect(release('0.9.1')).toMatchObject({ status: 1, output: expect.stringContaining('older than 0.10.0') });
    expect(release('next')).toMatchObject({ status: 1, output: expect.stringContaining('MAJOR.MINOR.PATCH') });
    writeFileSync(join(folder, 'proto-releases', 'draft.binpb'), '');
    expect(breaking()).toMatchObject({ status: 1, output: expect.stringContaining('draft.binpb') });
  });
});

it('the protos break nothing that was released', () => {
  const { status, stdout } = spawnSync('sh', ['scripts/breaking.sh'], { env, encoding: 'utf8' });
  expect(stdout).toMatch(/^protos against those of the release \d+\.\d+\.\d+\n$/);
  expect(status).toBe(0);
});
