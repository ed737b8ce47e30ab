import { type CommandDefinition, renderDirect } from '../../src/commands';
import { checkDefinition } from '../../src/commands/definitionRules';
import { ENCODER } from '../../src/cli/demo/demoSite';
import { InsertionRoom } from '../../src/kernel/jsonTemplate';
import { startEncoder, type TestEncoder } from '../support/encoders';
import { command, definition, param } from './definition';

const NOBODY = { id: '', name: '', clientDeviceId: '', triggerId: '', enqueuedAt: '' };

/** The example that a definition without this field is answered with. */
function exampleOf(mode: CommandDefinition['mode'], field: string): string {
  const violations = checkDefinition(definition({ mode, directPayload: undefined }));
  const description = violations.find((violation) => violation.field === field)?.description ?? '';
  return description.slice(description.indexOf('for example ') + 'for example '.length);
}

describe('what is recommended works', () => {
  let encoder: TestEncoder;
  beforeAll(() => {
    encoder = startEncoder();
  });
  afterAll(async () => await encoder.stop());

  it.each([
    ['of a definition without encoder', exampleOf('encoded', 'command.customEncoder'), { value: 21 }, [21]],
    ['of the demo', ENCODER, { position: 40 }, [1, 40]],
  ])('as the encoder %s', async (_name, script, data, bytes) => {
    const { output, error } = await encoder.encode({ owner: 'org-1', script, data, fPort: undefined });
    expect([error, [...(output?.bytes ?? [])]]).toEqual([undefined, bytes]);
  });

  it('as the payload of a definition without one', () => {
    const directPayload = exampleOf('direct', 'command.directPayload');
    const paramsSchema = { value: param() };
    expect(checkDefinition(definition({ directPayload, paramsSchema }))).toEqual([]);
    const values = { params: { value: 21 }, device: NOBODY, execution: NOBODY, room: new InsertionRoom() };
    expect(renderDirect(command({ directPayload, paramsSchema }), values).payload).toEqual({ value: 21 });
  });
});
