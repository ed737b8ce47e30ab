import type { Violation } from '../kernel/errors';
import type { CommandDraft, CommandMode } from './command';
import { checkTemplates } from './commandTemplates';
import { checkParamsSchema } from './paramSchema';

// Enough for any definition that a person writes; keeps the answer to a hostile one small.
const MOST_VIOLATIONS = 100;
const UNUSABLE_IN_TOPIC = /[+#\p{Cc}\p{Cs}\p{Noncharacter_Code_Point}]|\{\{/u;

type ModeField = 'directPayload' | 'customEncoder' | 'encoderProfileId' | 'encodedParamsTemplate';

interface ModeRules {
  readonly needs: ModeField;
  /** What will do as well. */
  readonly or?: ModeField;
  readonly refuses: readonly ModeField[];
  readonly example: string;
}

const MODES: Readonly<Record<CommandMode, ModeRules>> = {
  direct: { needs: 'directPayload', refuses: ['customEncoder', 'encoderProfileId', 'encodedParamsTemplate'], example: '{"value": {{params.value}}}' },
  encoded: { needs: 'customEncoder', or: 'encoderProfileId', refuses: ['directPayload'], example: 'function encodeDownlink(input) { return { bytes: [input.data.value] }; }' },
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
  const { needs, or, refuses, example } = MODES[definition.mode];
  const refused = refuses.filter((field) => definition[field] !== undefined).map((field) => ({ field: `command.${field}`, description: `does not belong to mode ${definition.mode}; take it out, or choose the other mode` }));
  if (definition[needs] !== undefined || (or && definition[or] !== undefined)) return refused;
  return [{ field: `command.${needs}`, description: `is required in mode ${definition.mode}; give it${or ? ` or ${or}` : ''}, for example ${example}` }, ...refused];
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
