import type { CodecError, EncodeResult } from '../codec';
import { ConnectionRepository, findConnector, isLorawan } from '../connections';
import type { Database } from '../database';
import { type Device, DeviceRepository } from '../devices';
import type { Clock } from '../kernel/clock';
import { throwIfAny, type Violation } from '../kernel/errors';
import { isId } from '../kernel/ids';
import { InsertionRoom } from '../kernel/jsonTemplate';
import { type JsonObject, jsonProblem } from '../kernel/jsonValue';
import { CodecRepository } from '../profiles';
import { renderEncoderInput } from './commandTemplates';
import { deviceVariables, type Encoder, runEncoder } from './encoder';
import { type EncoderSource, findEncoder, type FoundEncoder } from './profileEncoder';

/** The encoder to try, and what it is given. */
export interface PreviewRequest extends EncoderSource {
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
  private readonly codecs: CodecRepository;

  constructor(private readonly options: PreviewOptions) {
    this.devices = new DeviceRepository(options.database.db);
    this.connections = new ConnectionRepository(options.database.db);
    this.codecs = new CodecRepository(options.database.db);
  }

  /**
   * Renders and encodes for a device as an execution would; without an encoder of its own the request tries that of the profile that it names. Throws `device_not_found`, `validation_failed`, `sandbox_busy`, `sandbox_unavailable`. What the machine did to the encoder is an error of
   * the preview too. `signal` of the call: the preview of a caller who went away gives up its place.
   */
  async preview(organizationId: string, deviceId: string, request: PreviewRequest, signal?: AbortSignal): Promise<EncoderPreview> {
    const device = await this.devices.get(organizationId, deviceId);
    const { script = '', problem } = await this.findEncoder(request);
    throwIfAny([...paramsViolations(request.params), ...profileViolations(problem)]);
    const target = { id: device.id, name: device.name, clientDeviceId: device.physicalDevice?.clientDeviceId ?? '' };
    const execution = { id: NO_EXECUTION, triggerId: NO_EXECUTION, enqueuedAt: new Date(this.options.clock.now()).toISOString() };
    const { data, violations } = renderEncoderInput(request.template, 'encodedParamsTemplate', { params: request.params, device: target, execution, room: new InsertionRoom() });
    if (data === undefined) return templateError(violations);
    const kind = await this.kindOf(organizationId, device);
    const { fPort } = request;
    const variables = deviceVariables(device);
    // An owner of their own: previews never hold up the executions of their organization.
    const outcome = await runEncoder(this.options.encoder, { owner: `${organizationId}:preview`, kind, script, data, variables, fPort, signal });
    return isLorawan(kind) && outcome.output && outcome.output.fPort === undefined ? { ...outcome, warnings: [...outcome.warnings, NEEDS_PORT] } : outcome;
  }

  /** Names the profile that a request needs and that is not there, or has no encoder; nothing of a device that is not there. */
  async checkReferences(organizationId: string, deviceId: string, request: PreviewRequest): Promise<Violation[]> {
    if (!isId(deviceId) || !(await this.devices.find(organizationId, deviceId))) return [];
    return profileViolations((await this.findEncoder(request)).problem);
  }

  /** Beside a script of its own the profile counts for nothing. */
  private async findEncoder({ customEncoder, encoderProfileId }: EncoderSource): Promise<FoundEncoder> {
    return await findEncoder(this.codecs, { customEncoder, encoderProfileId: customEncoder === undefined ? encoderProfileId : undefined });
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

function profileViolations(problem: string | undefined): Violation[] {
  return problem === undefined ? [] : [{ field: 'encoderProfileId', description: problem }];
}

function templateError(violations: readonly Violation[]): EncoderPreview {
  const named = violations.slice(0, MOST_NAMED).map(({ field, description }) => `${field} ${description}`);
  const message = `${named.join('; ')}${violations.length > MOST_NAMED ? ` (and ${violations.length - MOST_NAMED} more)` : ''}`;
  return { output: undefined, warnings: [], logs: [], executionTimeMs: 0, error: { code: 'template_error', message, lineNumber: undefined } };
}
