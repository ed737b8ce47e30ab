import {
  type Command,
  CommandMode,
  UpdateCommandRequest,
} from '../../src/gen/actuator_command/v2/actuator_command_service';
import { DomainError } from '../../src/kernel/errors';
import { call } from '../support/edge';
import { startEncoder, type TestEncoder } from '../support/encoders';
import { sqliteOnly } from '../support/engines';
import { AS_ONE, startCommandFixture, type CommandFixture } from './commandFixture';

const BROKEN = 'function encodeDownlink(input) {\n  const level: number = 1;\n  return { bytes: [level] };\n}';
const ENCODED = { mode: CommandMode.COMMAND_MODE_ENCODED, directPayload: undefined };

describe.each(sqliteOnly())('the encoder of a stored command, on $name', (engine) => {
  let encoder: TestEncoder;
  let fixture: CommandFixture;
  /** Thrown instead of compiling. */
  let failure: Error | undefined;
  beforeAll(async () => {
    encoder = startEncoder();
    const compile: TestEncoder['compile'] = async (...values) => {
      if (failure) throw failure;
      return await encoder.compile(...values);
    };
    fixture = await startCommandFixture(engine, { ...encoder, compile });
  });
  afterEach(() => (failure = undefined));
  afterAll(async () => {
    await fixture.stop();
    await encoder.stop();
  });

  it('is reported when it cannot be compiled, with its line, by create and update', async () => {
    const { id } = await fixture.device();
    const created = await fixture.create(id, { ...ENCODED, customEncoder: BROKEN });
    expect(created.warnings).toContainEqual({
      code: 'encoder_not_compilable',
      message: expect.stringMatching(/^customEncoder failed with syntax_error in line 2: .*looks like TypeScript/),
    });
    expect(created.customEncoder).toBe(BROKEN);
    const { client } = fixture;
    const update = UpdateCommandRequest.fromPartial({
      id,
      commandId: created.id,
      command: {
        name: 'Other',
        mode: created.mode,
        verificationStrategy: created.verificationStrategy,
        customEncoder: BROKEN,
      },
    });
    const updated: Command = await call(client.updateCommand.bind(client), update, AS_ONE);
    expect(updated.warnings).toEqual(created.warnings);
    const request = { id, commandId: created.id, organizationId: '' };
    const stored: Command = await call(client.getCommand.bind(client), request, AS_ONE);
    expect(stored.warnings).toEqual([]);
  });

  it('is not run, and not reported when it can be compiled', async () => {
    const { id } = await fixture.device();
    const customEncoder = 'export function encodeDownlink(input) { return { bytes: [1] }; }\nthrow new Error("runs");';
    expect((await fixture.create(id, { ...ENCODED, customEncoder })).warnings).toEqual([]);
    expect((await fixture.create(id, { name: 'Direct' })).warnings).toEqual([]);
    expect(encoder.runs).toEqual([]);
  });

  it('is stored without a report while the sandbox is not available', async () => {
    failure = new DomainError('exhausted', 'codec_queue_full', 'too many scripts are waiting');
    const { id } = await fixture.device();
    expect(await fixture.create(id, { ...ENCODED, customEncoder: BROKEN })).toMatchObject({
      warnings: [],
      revision: 1,
    });
  });
});
