import type { CodecError, EncodeResult } from '../codec';
import { ConnectionRepository, findConnector, isLorawan } from '../connections';
import type { Database } from '../database';
import { type Device, DeviceRepository } from '../devices';
import type { Clock } from '../kernel/clock';
import { throwIfAny, type Violation } from '../kernel/errors';
import { InsertionRoom } from '../kernel/jsonTemplate';
import { type JsonObject, jsonProblem } from '../kernel/jsonValue';
import { renderEncoderInput } from './commandTemplates';
import { type Encoder, runEncoder } from './encoder';

/** The encoder to try, and what it is given. */
export interface PreviewRequest {
  readonly script: string;
  readonly template: JsonObject | undefined;
  /** As they are: no schema, no defaults. */
  readonly params: JsonObject;
  readonly fPort: number | undefined;
}

/** What came of running it. */
export interface EncoderPreview extends Omit<EncodeResult, 'error' | 'blameless'> {
  readonly error: Omit<CodecError, 'code'> & { readonly code: CodecError['code'] | 'template_error' } | undefined;
}

/** What the room needs of the house for previews. */
export interface PreviewOptions {
  readonly database: Database;
  readonly encoder: Encoder;
  readonly clock: Clock;
}

/** What templates see instead of the id of an execution. */
const NO_EXECUTION = '00000000-0000-7000-8000-000000000000';

/** Tries encoders. Nothing is stored, nothing is sent. */
export class EncoderPreviews {
  private readonly devices: DeviceRepository;
  private readonly connections: ConnectionRepository;

  constructor(private readonly options: PreviewOptions) {
    this.devices = new DeviceRepository(options.database.db);
    this.connections = new ConnectionRepository(options.database.db);
  }

  /**
   * Renders and encodes for a device as an execution would. Throws `device_not_found`, `validation_failed`, `sandbox_busy`, `sandbox_unavailable`. What the machine did to the encoder is an error of
   * the preview too. `signal` of the call: the preview of a caller who went away gives up its place.
   */
  async preview(organizationId: string, deviceId: string, request: PreviewRequest, signal?: AbortSignal): Promise<EncoderPreview> {
    const device = await this.devices.get(organizationId, deviceId);
    throwIfAny(paramsViolations(request.params));
    const target = { id: device.id, name: device.name, clientDeviceId: device.physicalDevice?.clientDeviceId ?? '' };
    const execution = { id: NO_EXECUTION, triggerId: NO_EXECUTION, enqueuedAt: new Date(this.options.clock.now()).toISOString() };
    const { data, violations } = renderEncoderInput(request.template, 'encodedParamsTemplate', { params: request.params, device: target, execution, room: new InsertionRoom() });
    if (data === undefined) return templateError(violations);
    const kind = await this.kindOf(organizationId, device);
    const { script, fPort } = request;
    // An owner of their own: previews never hold up the executions of their organization.
    const outcome = await runEncoder(this.options.encoder, { owner: `${organizationId}:preview`, kind, script, data, fPort, signal });
    return isLorawan(kind) && outcome.output && outcome.output.fPort === undefined ? { ...outcome, warnings: [...outcome.warnings, NEEDS_PORT] } : outcome;
  }

  private async kindOf(organizationId: string, { physicalDevice }: Device): Promise<string | undefined> {
    const connection = physicalDevice && (await this.connections.find(organizationId, physicalDevice.connectionId));
    return connection && findConnector(connection.connectorId)?.type;
  }
}

/** Of what is wrong with a template; the others are counted. */
const MOST_NAMED = 20;
const NEEDS_PORT = 'the device is on LoRaWAN, where an execution needs an fPort; return one, or give the command one';

function paramsViolations(params: JsonObject): Violation[] {
  const problem = jsonProblem(params);
  return problem === undefined ? [] : [{ field: 'params', description: problem }];
}

function templateError(violations: readonly Violation[]): EncoderPreview {
  const named = violations.slice(0, MOST_NAMED).map(({ field, description }) => `${field} ${description}`);
  const message = `${named.join('; ')}${violations.length > MOST_NAMED ? ` (and ${violations.length - MOST_NAMED} more)` : ''}`;
  return { output: undefined, warnings: [], logs: [], executionTimeMs: 0, error: { code: 'template_error', message, lineNumber: undefined } };
}
