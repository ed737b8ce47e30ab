import type { Violation } from '../kernel/errors';
import type { CommandDraft, CommandMode } from './command';
import { checkTemplates } from './commandTemplates';
import { checkParamsSchema } from './paramSchema';

// Enough for any definition that a person writes; keeps the answer to a hostile one small.
const MOST_VIOLATIONS = 100;
const UNUSABLE_IN_TOPIC = /[+#\p{Cc}\p{Cs}\p{Noncharacter_Code_Point}]|\{\{/u;

type ModeField = 'directPayload' | 'customEncoder' | 'encodedParamsTemplate';

const MODES: Readonly<Record<CommandMode, { readonly needs: ModeField; readonly refuses: readonly ModeField[]; readonly example: string }>> = {
  direct: { needs: 'directPayload', refuses: ['customEncoder', 'encodedParamsTemplate'], example: '{"value": {{params.value}}}' },
  encoded: { needs: 'customEncoder', refuses: ['directPayload'], example: 'function encodeDownlink(input) { return { bytes: [input.data.value] }; }' },
};

/** Everything wrong with a definition by itself, beyond the field rules of the proto; fields are named as in a request (`command.mode`). */
export function checkDefinition(definition: CommandDraft): Violation[] {
  return [
    ...checkMode(definition),
    ...checkVerification(definition),
    ...checkTopic(definition.mqttTopic),
    ...checkParamsSchema(definition.paramsSchema, 'command.paramsSchema'),
    ...checkTemplates(definition),
  ].slice(0, MOST_VIOLATIONS);
}

function checkMode(definition: CommandDraft): Violation[] {
  if (definition.mode === undefined) return [];
  const { needs, refuses, example } = MODES[definition.mode];
  const refused = refuses.filter((field) => definition[field] !== undefined).map((field) => ({ field: `command.${field}`, description: `does not belong to mode ${definition.mode}; take it out, or choose the other mode` }));
  return definition[needs] === undefined ? [{ field: `command.${needs}`, description: `is required in mode ${definition.mode}; give it, for example ${example}` }, ...refused] : refused;
}

function checkVerification(definition: CommandDraft): Violation[] {
  const sensors = definition.expectedSensorStates.map((state) => state.sensorId);
  const violations = sensors.flatMap((sensorId, at) => (sensorId !== '' && sensors.indexOf(sensorId) < at ? [{ field: `command.expectedSensorStates[${at}].sensorId`, description: 'stands twice; expect one state of each sensor' }] : []));
  if (definition.verificationStrategy === 'query_after_ack' && definition.queryCommandId === undefined) {
    violations.push({ field: 'command.queryCommandId', description: 'is required by query_after_ack; give the command of this device that asks for the state' });
  }
  return violations;
}

function checkTopic(topic: string | undefined): Violation[] {
  if (topic === undefined || !UNUSABLE_IN_TOPIC.test(topic)) return [];
  return [{ field: 'command.mqttTopic', description: 'is where the command is published; it may hold no wildcards (+, #), no control characters and no {{placeholders}}, only {clientDeviceId}' }];
}
