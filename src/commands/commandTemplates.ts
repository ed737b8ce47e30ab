import type { Violation } from '../kernel/errors';
import {
  type InsertionBudget,
  parseJsonText,
  parseJsonValue,
  parseValueText,
  renderTemplate,
  type JsonTemplate,
  type TemplateParseResult,
} from '../kernel/jsonTemplate';
import type { JsonObject, JsonValue } from '../kernel/jsonValue';
import type { Placeholder } from '../kernel/placeholders';
import type { Command, CommandDraft } from './command';
import type { ParamsSchema } from './paramSchema';

/** Device values that templates can use, for example `{{device.id}}`. */
interface TemplateDevice {
  readonly id: string;
  readonly name: string;
  readonly clientDeviceId: string;
}

/** Execution values that templates can use, for example `{{execution.id}}`. */
export interface TemplateExecution {
  readonly id: string;
  readonly triggerId: string;
  /**
   * When the template was rendered, ISO 8601 in UTC. The execution's own time is its commit time, which is later if
   * encoders queue.
   */
  readonly enqueuedAt: string;
}

/** The values that are inserted into templates. */
export interface TemplateValues {
  /** The evaluated parameters. */
  readonly params: JsonObject;
  readonly device: TemplateDevice;
  readonly execution: TemplateExecution;
  /** Shared by all templates that are rendered for one submission. */
  readonly budget: InsertionBudget;
}

/** A value that a sensor is expected to report. */
interface RenderedState {
  readonly sensorId: string;
  readonly value: JsonValue;
}

/** The definition field that is rendered into the encoder's input. */
export const ENCODED_TEMPLATE = 'command.encodedParamsTemplate';

// Per template, so that problems of other templates are also reported.
const MAX_VIOLATIONS_PER_TEMPLATE = 50;
/** The first steps of placeholders, and the fields that may follow; parameters are declared by each command. */
const ROOTS = ['params', 'device', 'execution'] as const;
const FIELDS_OF_ROOT: Readonly<Record<string, readonly string[]>> = {
  device: ['id', 'name', 'clientDeviceId'] satisfies (keyof TemplateDevice)[],
  execution: ['id', 'triggerId', 'enqueuedAt'] satisfies (keyof TemplateExecution)[],
};

/** Validates the templates of a definition: syntax, unknown names, and parameters that the schema does not declare. */
export function checkTemplates(definition: CommandDraft): Violation[] {
  const parses: TemplateParseResult[] = [];
  if (definition.directPayload !== undefined) parses.push(parseDirectPayload(definition.directPayload));
  const { encodedParamsTemplate: encoded } = definition;
  if (encoded !== undefined) parses.push(parseJsonValue(encoded, ENCODED_TEMPLATE, ROOTS));
  for (const [index, state] of definition.expectedSensorStates.entries())
    parses.push(parseExpectedState(state.valueTemplate, index));
  return parses.flatMap((parse) =>
    parse.template
      ? checkPlaceholders(parse.template, definition.paramsSchema)
      : parse.violations.slice(0, MAX_VIOLATIONS_PER_TEMPLATE),
  );
}

/** Renders the payload of a command in direct mode. The result is valid only if there are no violations. */
export function renderDirectPayload(
  command: Command,
  values: TemplateValues,
): { payload: JsonValue | undefined; violations: readonly Violation[] } {
  const { value, violations } = render(parseDirectPayload(command.directPayload ?? ''), values);
  return { payload: value, violations };
}

/**
 * Renders the encoder's `input.data` from the template, or returns the parameters if there is no template. The result
 * is valid only if there are no violations; violations of the template itself name `field`.
 */
export function renderEncoderInput(
  template: JsonObject | undefined,
  field: string,
  values: TemplateValues,
): { data: JsonValue | undefined; violations: readonly Violation[] } {
  if (!template) return { data: values.params, violations: [] };
  const { value, violations } = render(parseJsonValue(template, field, ROOTS), values);
  return { data: value, violations };
}

/**
 * Renders the sensor values that are expected after the command. The result is valid only if there are no violations.
 */
export function renderExpectedStates(
  command: Command,
  values: TemplateValues,
): { expected: readonly RenderedState[]; violations: readonly Violation[] } {
  const expected: RenderedState[] = [];
  const violations: Violation[] = [];
  for (const [index, state] of command.expectedSensorStates.entries()) {
    const rendering = render(parseExpectedState(state.valueTemplate, index), values);
    if (rendering.value === undefined) violations.push(...rendering.violations);
    else expected.push({ sensorId: state.sensorId, value: rendering.value });
  }
  return { expected, violations };
}

function parseDirectPayload(text: string): TemplateParseResult {
  return parseJsonText(text, 'command.directPayload', ROOTS);
}

function parseExpectedState(text: string, index: number): TemplateParseResult {
  return parseValueText(text, `command.expectedSensorStates[${index}].valueTemplate`, ROOTS);
}

/** Renders a parsed template, or returns the violations of its parsing. */
function render(
  parse: TemplateParseResult,
  { params, device, execution, budget }: TemplateValues,
): { value: JsonValue | undefined; violations: readonly Violation[] } {
  if (!parse.template) return { value: undefined, violations: parse.violations };
  // Fields are copied one by one, so that templates cannot access other fields of the caller's objects.
  const { id, name, clientDeviceId } = device;
  const executionValues = { id: execution.id, triggerId: execution.triggerId, enqueuedAt: execution.enqueuedAt };
  return renderTemplate(
    parse.template,
    { params, device: { id, name, clientDeviceId }, execution: executionValues },
    budget,
  );
}

/** Reports invalid placeholders, each path once. */
function checkPlaceholders(template: JsonTemplate, schema: ParamsSchema): Violation[] {
  const placeholderByPath = new Map(template.placeholders.map((placeholder) => [placeholder.path, placeholder]));
  return [...placeholderByPath.values()].flatMap((placeholder) => {
    const problem = findPlaceholderProblem(placeholder, schema);
    return problem
      ? [{ field: template.field, description: `{{${placeholder.path}}} ${placeholder.location} ${problem}` }]
      : [];
  });
}

/**
 * Returns the predicate of the error message about a placeholder, for example `is unknown; …`; undefined if the
 * placeholder is valid.
 */
function findPlaceholderProblem({ steps }: Placeholder, schema: ParamsSchema): string | undefined {
  const [root, name, ...innerSteps] = steps; // for example `params`, the name of a parameter, and a path in its value
  if (name === undefined) return undefined; // the whole object, for example {{params}}
  const allowedFields = FIELDS_OF_ROOT[String(root)];
  if (allowedFields)
    return allowedFields.includes(String(name)) && innerSteps.length === 0
      ? undefined
      : `is unknown; use one of ${allowedFields.map((field) => `${root}.${field}`).join(', ')}`;
  if (typeof name !== 'string' || !Object.hasOwn(schema, name))
    return 'is not declared in paramsSchema; declare the parameter there';
  const type = schema[name]?.type;
  return type && innerSteps.length > 0
    ? `accesses a field of a parameter of type ${type}, which has no fields; use the parameter itself, or declare it without a type`
    : undefined;
}
