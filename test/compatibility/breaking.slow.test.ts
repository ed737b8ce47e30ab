import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join, resolve } from 'node:path';

const env = { ...process.env, PATH: resolve('node_modules/.bin') + delimiter + process.env.PATH };
const COMMANDS = 'proto/actuator_command/v2/actuator_command_service.proto';

const BROKEN = [
  'ActuatorCommandService/CreateCommand: its route POST /api/v2/devices/{id}/commands body * is gone',
  'ActuatorCommandService/GetCommand: its route GET /api/v2/devices/{id}/commands/{command_id} is gone',
  'ActuatorCommandService/GetCommand: required_scope was commands:read and is organizations:write',
  'ActuatorCommandService/PreviewEncoder: admin_only is new',
  'ActuatorCommandService/ExecuteCommand: success_status was 202 and is 200',
  'ActuatorCommandService/ExecuteCommand: its status 422 where rejectionReason is validation_failed is gone, or comes after another one',
  'ParamSchema.description: max_length was 2000 and is 1999',
  'CommandDefinition.params_schema: max_items was 64 and is 63',
  'CommandDefinition.f_port: max was 223 and is 222',
  'CommandDefinition.f_port: min was 1 and is 2',
  'CreateCommandRequest.organization_id: required is new',
  'CreateCommandRequest.organization_id: format was 0 and is 2',
  'CreateCommandRequest.organization_id: in is new',
];

describe('a breaking change for users of a released proto', () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'plantroom-breaking-'));
    for (const file of ['buf.yaml', 'scripts/breaking.sh', 'scripts/protos'])
      cpSync(file, join(folder, file), { recursive: true });
    symlinkSync(resolve('node_modules'), join(folder, 'node_modules'), 'junction');
  });
  beforeEach(() => {
    for (const fixture of ['proto', 'proto-releases']) rmSync(join(folder, fixture), { recursive: true, force: true });
    cpSync('proto', join(folder, 'proto'), { recursive: true });
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  const run = (command: string, ...args: string[]): { status: number | null; output: string } => {
    const { status, stdout, stderr } = spawnSync(command, args, { cwd: folder, env, encoding: 'utf8' });
    return { status, output: stdout + stderr };
  };
  const release = (version: string, own = version): { status: number | null; output: string } => {
    writeFileSync(join(folder, 'package.json'), JSON.stringify({ version: own }));
    return run(process.execPath, 'scripts/protos/release.mjs', version);
  };
  const breaking = (): { status: number | null; output: string } => run('sh', 'scripts/breaking.sh');
  const edit = (file: string, ...changes: readonly (readonly [string, string])[]): void => {
    const path = join(folder, file);
    const text = changes.reduce(
      (before, [from, to]) => {
        expect(before).toContain(from);
        return before.replace(from, to);
      },
      readFileSync(path, 'utf8'),
    );
    writeFileSync(path, text);
  };

  it('is found and named', () => {
    expect(release('0.9.0')).toMatchObject({ status: 0 });
    edit(
      COMMANDS,
      ['  string trigger_id = 2;', '  string trigger_id = 23;'], // The number changed.
      // The name changed, which is also the name in JSON.
      ['  string command_name_snapshot = 4;', '  string command_name = 4;'],
      ['  int32 attempts = 17;', '  string attempts = 17;'], // The type changed.
      ['  string detail_message = 14;', ''], // The field was removed.
      ['  EXECUTION_STATE_UNCONFIRMED = 7;', ''],
      ['rpc GetCommand(GetCommandRequest) returns (Command)', 'rpc ReadCommand(GetCommandRequest) returns (Command)'],
    );
    const { status, output } = breaking();
    expect(status).not.toBe(0);
    for (const name of [
      '"trigger_id"',
      '"command_name_snapshot"',
      '"attempts"',
      '"detail_message"',
      '"EXECUTION_STATE_UNCONFIRMED"',
      '"GetCommand"',
    ])
      expect(output).toContain(name);
    expect(release('0.10.0')).toMatchObject({ status: 1 });
  });

  it('is found in method scopes and field rules, which buf does not check', () => {
    expect(release('0.9.0')).toMatchObject({ status: 0 });
    edit(
      COMMANDS,
      ['{get: "/api/v2/devices/{id}/commands/{command_id}"}', '{get: "/other/v2/devices/{id}/commands/{command_id}"}'],
      [
        'post: "/api/v2/devices/{id}/commands"\n      body: "*"',
        'put: "/api/v2/devices/{id}/commands"\n      body: "command"',
      ],
      ['required_scope) = "commands:read"', 'required_scope) = "organizations:write"'],
      ['success_status) = 202', 'success_status) = 200'],
      ['status: 422', 'status: 423'],
      [
        'option (plantroom.v1.read_only) = true;',
        'option (plantroom.v1.read_only) = true;\n    option (plantroom.v1.admin_only) = true;',
      ],
      ['{max_length: 2000}', '{max_length: 1999}'],
      ['    min: 1\n    max: 223\n', '    min: 2\n    max: 222\n'],
      ['{max_items: 64}', '{max_items: 63}'],
      [
        'string organization_id = 2 [(plantroom.v1.rules) = {max_length: 128}]',
        'string organization_id = 2 [(plantroom.v1.rules) = {\n    required: true\n    max_length: 128\n    format: STRING_FORMAT_ID\n    in: ["one"]\n  }]',
      ],
    );
    const { status, output } = breaking();
    expect(status).toBe(1);
    expect(output.split('\n').filter((line) => line.startsWith('actuator_command.v2.'))).toEqual(
      BROKEN.map((line) => `actuator_command.v2.${line}`),
    );
  });

  it('does not include additions and wider rules', () => {
    expect(release('0.9.0')).toMatchObject({ status: 0 });
    edit(
      COMMANDS,
      ['  string trigger_id = 2;', '  string trigger_id = 2;\n  optional string added = 1000;'],
      ['  EXECUTION_STATE_UNCONFIRMED = 7;', '  EXECUTION_STATE_UNCONFIRMED = 7;\n  EXECUTION_STATE_ADDED = 1000;'],
      ['message Execution {', 'message Added {}\nmessage Execution {'],
      ['  rpc CreateCommand(', '  rpc AddedCommand(GetCommandRequest) returns (Command);\n  rpc CreateCommand('],
      [
        '{get: "/api/v2/devices/{id}/commands"}',
        '{\n      get: "/api/v2/devices/{id}/commands"\n      additional_bindings: {get: "/api/v3/devices/{id}/commands"}\n    }',
      ],
      ['{max_length: 2000}', '{max_length: 2001}'],
      ['{max_bytes: 65536}', '{}'],
      ['required_scope) = "commands:write"', 'required_scope) = "commands:execute"'],
      ['    min: 1\n    max: 223\n', '    min: 0\n    max: 224\n'],
      [
        '      value: "device_queue_full"\n    };\n',
        '      value: "device_queue_full"\n    };\n    option (plantroom.v1.status_rules) = {\n      status: 423\n      field: "rejectionReason"\n      value: "added"\n    };\n',
      ],
    );
    expect(breaking()).toEqual({ status: 0, output: 'comparing the protos with those of the release 0.9.0\n' });
  });

  it('is measured against the newest release (0.10.0 after 0.9.0), and a release is never overwritten', () => {
    release('0.9.0');
    edit(COMMANDS, ['  string trigger_id = 2;', '  string trigger_id = 2;\n  optional string added = 1000;']);
    expect(release('0.10.0')).toMatchObject({ status: 0 });
    edit(COMMANDS, ['\n  optional string added = 1000;', '']);
    expect(breaking()).toMatchObject({ status: 100, output: expect.stringContaining('"added"') });
    expect(release('0.10.0')).toMatchObject({ status: 1, output: expect.stringContaining('0.10.0 was released') });
    expect(release('0.9.1')).toMatchObject({ status: 1, output: expect.stringContaining('older than 0.10.0') });
    expect(release('0.11.0', '0.10.1')).toMatchObject({
      status: 1,
      output: expect.stringContaining('package.json says 0.10.1'),
    });
    expect(release('next')).toMatchObject({ status: 1, output: expect.stringContaining('MAJOR.MINOR.PATCH') });
    writeFileSync(join(folder, 'proto-releases', 'draft.binpb'), '');
    expect(breaking()).toMatchObject({ status: 1, output: expect.stringContaining('draft.binpb') });
  });
});
