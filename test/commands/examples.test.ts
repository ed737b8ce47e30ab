import { type CommandDefinition, renderDirectPayload } from '../../src/commands';
import { checkDefinition } from '../../src/commands/definitionRules';
import { ENCODER } from '../../src/cli/demo/demoSite';
import { InsertionBudget } from '../../src/kernel/jsonTemplate';
import { startEncoder, type TestEncoder } from '../support/encoders';
import { command, definition, param } from './definition';

const EMPTY_DETAILS = { id: '', name: '', clientDeviceId: '', triggerId: '', enqueuedAt: '' };

/** The example in the error for a definition without this field. */
function toExample(mode: CommandDefinition['mode'], field: string): string {
  const violations = checkDefinition(definition({ mode, directPayload: undefined }));
  const description = violations.find((violation) => violation.field === field)?.description ?? '';
  return description.slice(description.indexOf('for example ') + 'for example '.length);
}

describe('the example in an error message', () => {
  let encoder: TestEncoder;
  beforeAll(() => {
    encoder = startEncoder();
  });
  afterAll(async () => await encoder.stop());

  it.each([
    ['of a definition without encoder', toExample('encoded', 'command.customEncoder'), { value: 21 }, [21]],
    ['of the demo', ENCODER, { position: 40 }, [1, 40]],
  ])('works as the encoder %s', async (_name, script, data, bytes) => {
    const { output, error } = await encoder.encode({ owner: 'org-1', script, data, fPort: undefined });
    expect([error, [...(output?.bytes ?? [])]]).toEqual([undefined, bytes]);
  });

  it('works as the payload of a definition without one', () => {
    const directPayload = toExample('direct', 'command.directPayload');
    const paramsSchema = { value: param() };
    expect(checkDefinition(definition({ directPayload, paramsSchema }))).toEqual([]);
    const values = {
      params: { value: 21 },
      device: EMPTY_DETAILS,
      execution: EMPTY_DETAILS,
      budget: new InsertionBudget(),
    };
    expect(renderDirectPayload(command({ directPayload, paramsSchema }), values).payload).toEqual({ value: 21 });
  });
});
