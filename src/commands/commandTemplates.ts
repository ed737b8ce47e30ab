import type { Violation } from '../kernel/errors';
import { type InsertionRoom, parseJsonText, parseJsonValue, parseValueText, renderTemplate, type JsonTemplate, type TemplateParse } from '../kernel/jsonTemplate';
import type { JsonObject, JsonValue } from '../kernel/jsonValue';
import type { Placeholder } from '../kernel/placeholders';
import type { Command, CommandDraft } from './command';
import type { ParamsSchema } from './paramSchema';

/** What templates can say of the device, as `{{device.id}}`. */
export interface TemplateDevice {
  readonly id: string;
  readonly name: string;
  readonly clientDeviceId: string;
}

/** What templates can say of the execution, as `{{execution.id}}`. */
export interface TemplateExecution {
  readonly id: string;
  readonly triggerId: string;
  /** When it was rendered, ISO 8601 in UTC; the execution's own time is that of its commit, which is later while encoders wait. */
  readonly enqueuedAt: string;
}

/** What is put into templates. */
export interface TemplateValues {
  /** Evaluated. */
  readonly params: JsonObject;
  readonly device: TemplateDevice;
  readonly execution: TemplateExecution;
  /** Shared by all that is rendered for one submission. */
  readonly room: InsertionRoom;
}

/** A value that a sensor is expected to show. */
export interface RenderedState {
  readonly sensorId: string;
  readonly value: JsonValue;
}

/** The field of a definition that is rendered into the encoder's input. */
export const ENCODED_TEMPLATE = 'command.encodedParamsTemplate';

// Of one template, so that there is room for what is wrong with the others.
const MOST_PROBLEMS = 50;
const ROOTS = ['params', 'device', 'execution'] as const;
const FACTS: Readonly<Record<string, readonly string[]>> = {
  device: ['id', 'name', 'clientDeviceId'] satisfies (keyof TemplateDevice)[],
  execution: ['id', 'triggerId', 'enqueuedAt'] satisfies (keyof TemplateExecution)[],
};

/** Everything wrong with the templates of a definition: syntax, unknown names, parameters that the schema does not declare. */
export function checkTemplates(definition: CommandDraft): Violation[] {
  const parses: TemplateParse[] = [];
  if (definition.directPayload !== undefined) parses.push(parseDirectPayload(definition.directPayload));
  const { encodedParamsTemplate: encoded } = definition;
  if (encoded !== undefined) parses.push(parseJsonValue(encoded, ENCODED_TEMPLATE, ROOTS));
  for (const [at, state] of definition.expectedSensorStates.entries()) parses.push(parseExpected(state.valueTemplate, at));
  return parses.flatMap((parse) => (parse.template ? pathViolations(parse.template, definition.paramsSchema) : parse.violations.slice(0, MOST_PROBLEMS)));
}

/** The payload of a command in direct mode. Only good if there are no violations. */
export function renderDirect(command: Command, values: TemplateValues): { payload: JsonValue | undefined; violations: readonly Violation[] } {
  const { value, violations } = rendered(parseDirectPayload(command.directPayload ?? ''), values);
  return { payload: value, violations };
}

/**
 * What an encoder is given as `input.data`: the rendered template, or the parameters themselves without one. Only good if there are no
 * violations; those of the template's own form name `field`.
 */
export function renderEncoderInput(template: JsonObject | undefined, field: string, values: TemplateValues): { data: JsonValue | undefined; violations: readonly Violation[] } {
  if (!template) return { data: values.params, violations: [] };
  const { value, violations } = rendered(parseJsonValue(template, field, ROOTS), values);
  return { data: value, violations };
}

/** What the sensors are expected to show after the command. Only good if there are no violations. */
export function renderExpected(command: Command, values: TemplateValues): { expected: readonly RenderedState[]; violations: readonly Violation[] } {
  const expected: RenderedState[] = [];
  const violations: Violation[] = [];
  for (const [at, state] of command.expectedSensorStates.entries()) {
    const rendering = rendered(parseExpected(state.valueTemplate, at), values);
    if (rendering.value === undefined) violations.push(...rendering.violations);
    else expected.push({ sensorId: state.sensorId, value: rendering.value });
  }
  return { expected, violations };
}

function parseDirectPayload(text: string): TemplateParse {
  return parseJsonText(text, 'command.directPayload', ROOTS);
}

function parseExpected(text: string, at: number): TemplateParse {
  return parseValueText(text, `command.expectedSensorStates[${at}].valueTemplate`, ROOTS);
}

function rendered(parse: TemplateParse, { params, device, execution, room }: TemplateValues): { value: JsonValue | undefined; violations: readonly Violation[] } {
  if (!parse.template) return { value: undefined, violations: parse.violations };
  // Copied member by member: whatever else the caller's objects hold stays out of reach of templates.
  const { id, name, clientDeviceId } = device;
  const facts = { id: execution.id, triggerId: execution.triggerId, enqueuedAt: execution.enqueuedAt };
  return renderTemplate(parse.template, { params, device: { id, name, clientDeviceId }, execution: facts }, room);
}

function pathViolations(template: JsonTemplate, schema: ParamsSchema): Violation[] {
  const byPath = new Map(template.placeholders.map((placeholder) => [placeholder.path, placeholder]));
  return [...byPath.values()].flatMap((placeholder) => {
    const problem = pathProblem(placeholder, schema);
    return problem ? [{ field: template.field, description: `{{${placeholder.path}}} ${placeholder.place} ${problem}` }] : [];
  });
}

function pathProblem({ steps }: Placeholder, schema: ParamsSchema): string | undefined {
  const [root, name, ...inner] = steps;
  if (name === undefined) return undefined;
  const facts = FACTS[String(root)];
  if (facts) return facts.includes(String(name)) && inner.length === 0 ? undefined : `stands for nothing; use one of ${facts.map((fact) => `${root}.${fact}`).join(', ')}`;
  if (typeof name !== 'string' || !Object.hasOwn(schema, name)) return 'names a parameter that paramsSchema does not declare; declare it there';
  const type = schema[name]?.type;
  return type && inner.length > 0 ? `looks inside a parameter of type ${type}, which has nothing inside; take the parameter itself, or declare it without a type` : undefined;
}
