import type { Violation } from '../kernel/errors';
import type { CommandDraft, CommandMode } from './command';
import { checkTemplates } from './commandTemplates';
import { checkParamsSchema } from './paramSchema';

// Enough for any hand-written definition; limits the size of the response to a hostile one.
const MAX_VIOLATIONS = 100;
const INVALID_IN_TOPIC = /[+#\p{Cc}\p{Cs}\p{Noncharacter_Code_Point}]|\{\{/u;

type ModeField = 'directPayload' | 'customEncoder' | 'encoderProfileId' | 'encodedParamsTemplate';

interface ModeRules {
  readonly requiredField: ModeField;
  /** A field that may be set instead. */
  readonly alternativeField?: ModeField;
  readonly forbiddenFields: readonly ModeField[];
  readonly example: string;
}

const MODES: Readonly<Record<CommandMode, ModeRules>> = {
  direct: {
    requiredField: 'directPayload',
    forbiddenFields: ['customEncoder', 'encoderProfileId', 'encodedParamsTemplate'],
    example: '{"value": {{params.value}}}',
  },
  encoded: {
    requiredField: 'customEncoder',
    alternativeField: 'encoderProfileId',
    forbiddenFields: ['directPayload'],
    example: 'function encodeDownlink(input) { return { bytes: [input.data.value] }; }',
  },
};

/**
 * Validates a definition beyond the field rules of the proto, without the database. Fields are named as in a request
 * (`command.mode`).
 */
export function checkDefinition(definition: CommandDraft): Violation[] {
  return [
    ...checkMode(definition),
    ...checkVerification(definition),
    ...checkTopic(definition.mqttTopic),
    ...checkParamsSchema(definition.paramsSchema, 'command.paramsSchema'),
    ...checkTemplates(definition),
  ].slice(0, MAX_VIOLATIONS);
}

/** Checks that the fields that the mode requires are set, and that those of the other mode are not. */
function checkMode(definition: CommandDraft): Violation[] {
  if (definition.mode === undefined) return [];
  const { requiredField, alternativeField, forbiddenFields, example } = MODES[definition.mode];
  const forbidden = forbiddenFields
    .filter((field) => definition[field] !== undefined)
    .map((field) => ({
      field: `command.${field}`,
      description: `is not allowed in mode ${definition.mode}; remove it, or choose the other mode`,
    }));
  if (definition[requiredField] !== undefined || (alternativeField && definition[alternativeField] !== undefined))
    return forbidden;
  return [
    {
      field: `command.${requiredField}`,
      description: `is required in mode ${definition.mode}; set it${alternativeField ? ` or ${alternativeField}` : ''}, for example ${example}`,
    },
    ...forbidden,
  ];
}

/** Checks that each sensor has only one expected state, and that the strategy has the query command that it needs. */
function checkVerification(definition: CommandDraft): Violation[] {
  const sensorIds = definition.expectedSensorStates.map((state) => state.sensorId);
  const violations = sensorIds.flatMap((sensorId, index) =>
    sensorId !== '' && sensorIds.indexOf(sensorId) < index
      ? [
          {
            field: `command.expectedSensorStates[${index}].sensorId`,
            description: 'is a duplicate; expect only one state per sensor',
          },
        ]
      : [],
  );
  if (definition.verificationStrategy === 'query_after_ack' && definition.queryCommandId === undefined) {
    violations.push({
      field: 'command.queryCommandId',
      description: 'is required by query_after_ack; set the command of this device that queries the state',
    });
  }
  return violations;
}

/** Checks the MQTT topic that a command sets for its messages. */
function checkTopic(topic: string | undefined): Violation[] {
  if (topic === undefined || !INVALID_IN_TOPIC.test(topic)) return [];
  return [
    {
      field: 'command.mqttTopic',
      description:
        'must not contain wildcards (+, #), control characters or {{placeholders}}; only {clientDeviceId} is replaced',
    },
  ];
}
