import type { CodecError, EncodeResult } from '../codec';
import { ConnectionRepository, findConnector, isLorawan } from '../connections';
import type { Database } from '../database';
import { type Device, DeviceRepository } from '../devices';
import type { Clock } from '../kernel/clock';
import { throwIfAny, type Violation } from '../kernel/errors';
import { isId } from '../kernel/ids';
import { InsertionBudget } from '../kernel/jsonTemplate';
import { type JsonObject, findJsonProblem } from '../kernel/jsonValue';
import { CodecRepository } from '../profiles';
import { renderEncoderInput } from './commandTemplates';
import { getDeviceVariables, type Encoder, runEncoder } from './encoder';
import { type EncoderSource, findEncoder, type EncoderLookup } from './profileEncoder';

/** The encoder to try, and its input. */
export interface PreviewRequest extends EncoderSource {
  readonly template: JsonObject | undefined;
  /** Used unchanged: no schema, no defaults. */
  readonly params: JsonObject;
  readonly fPort: number | undefined;
}

/** The result of a preview. */
export interface EncoderPreview extends Omit<EncodeResult, 'error' | 'isServerFault'> {
  readonly error: (Omit<CodecError, 'code'> & { readonly code: CodecError['code'] | 'template_error' }) | undefined;
}

/** Dependencies of encoder previews. */
interface PreviewOptions {
  readonly database: Database;
  readonly encoder: Encoder;
  readonly clock: Clock;
}

/** Replaces the execution id in templates. */
const PREVIEW_EXECUTION_ID = '00000000-0000-7000-8000-000000000000';

/** Runs encoders for a preview. Stores and sends nothing. */
export class EncoderPreviewService {
  private readonly devices: DeviceRepository;
  private readonly connections: ConnectionRepository;
  private readonly codecs: CodecRepository;

  constructor(private readonly options: PreviewOptions) {
    this.devices = new DeviceRepository(options.database.db);
    this.connections = new ConnectionRepository(options.database.db);
    this.codecs = new CodecRepository(options.database.db);
  }

  /**
   * Renders and encodes for a device like an execution does. Without a custom encoder it uses the encoder of the named
   * profile. Throws `device_not_found`, `validation_failed`, `codec_queue_full`, `codec_unavailable`. Interruptions
   * by the machine are also errors of the preview. If `signal` aborts, the preview leaves the queue.
   */
  async preview(
    organizationId: string,
    deviceId: string,
    request: PreviewRequest,
    signal?: AbortSignal,
  ): Promise<EncoderPreview> {
    const device = await this.devices.get(organizationId, deviceId);
    const { script = '', problem } = await this.findEncoder(request);
    throwIfAny([...checkPreviewParams(request.params), ...createProfileViolations(problem)]);
    const templateDevice = {
      id: device.id,
      name: device.name,
      clientDeviceId: device.physicalDevice?.clientDeviceId ?? '',
    };
    const execution = {
      id: PREVIEW_EXECUTION_ID,
      triggerId: PREVIEW_EXECUTION_ID,
      enqueuedAt: new Date(this.options.clock.now()).toISOString(),
    };
    const { data, violations } = renderEncoderInput(request.template, 'encodedParamsTemplate', {
      params: request.params,
      device: templateDevice,
      execution,
      budget: new InsertionBudget(),
    });
    if (data === undefined) return createTemplateErrorPreview(violations);
    const connectorType = await this.findConnectorType(organizationId, device);
    const { fPort } = request;
    const variables = getDeviceVariables(device);
    // Previews have their own queue owner, so they never delay the executions of their organization.
    const outcome = await runEncoder(this.options.encoder, {
      owner: `${organizationId}:preview`,
      connectorType,
      script,
      data,
      variables,
      fPort,
      signal,
    });
    return isLorawan(connectorType) && outcome.output && outcome.output.fPort === undefined
      ? { ...outcome, warnings: [...outcome.warnings, FPORT_MISSING_WARNING] }
      : outcome;
  }

  /**
   * Reports the profile that a request needs if it does not exist or has no encoder. Reports none if the device does
   * not exist.
   */
  async checkReferences(organizationId: string, deviceId: string, request: PreviewRequest): Promise<Violation[]> {
    if (!isId(deviceId) || !(await this.devices.find(organizationId, deviceId))) return [];
    return createProfileViolations((await this.findEncoder(request)).problem);
  }

  /** A custom encoder takes precedence over the profile. */
  private async findEncoder({ customEncoder, encoderProfileId }: EncoderSource): Promise<EncoderLookup> {
    return await findEncoder(this.codecs, {
      customEncoder,
      encoderProfileId: customEncoder === undefined ? encoderProfileId : undefined,
    });
  }

  /** Returns the connector type of the connection that the device is bound to; undefined if there is none. */
  private async findConnectorType(organizationId: string, { physicalDevice }: Device): Promise<string | undefined> {
    const connection = physicalDevice && (await this.connections.find(organizationId, physicalDevice.connectionId));
    return connection && findConnector(connection.connectorId)?.type;
  }
}

/** The maximum number of listed template violations; further ones are only counted. */
const MAX_LISTED_VIOLATIONS = 20;
const FPORT_MISSING_WARNING =
  'the device uses LoRaWAN, which requires an fPort; return one from the encoder, or set it in the command';

function checkPreviewParams(params: JsonObject): Violation[] {
  const problem = findJsonProblem(params);
  return problem === undefined ? [] : [{ field: 'params', description: problem }];
}

function createProfileViolations(problem: string | undefined): Violation[] {
  return problem === undefined ? [] : [{ field: 'encoderProfileId', description: problem }];
}

/** Creates the result of a preview whose template could not be rendered, so that the encoder did not run. */
function createTemplateErrorPreview(violations: readonly Violation[]): EncoderPreview {
  const listedViolations = violations
    .slice(0, MAX_LISTED_VIOLATIONS)
    .map(({ field, description }) => `${field} ${description}`);
  const message = `${listedViolations.join('; ')}${violations.length > MAX_LISTED_VIOLATIONS ? ` (and ${violations.length - MAX_LISTED_VIOLATIONS} more)` : ''}`;
  return {
    output: undefined,
    warnings: [],
    logs: [],
    executionTimeMs: 0,
    error: { code: 'template_error', message, lineNumber: undefined },
  };
}
