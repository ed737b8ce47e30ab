import { status, type ServiceError } from '@grpc/grpc-js';
import { ActuatorCommandServiceService, CreateCommandRequest, ExecuteCommandRequest } from '../../src/gen/actuator_command/v2/actuator_command_service';
import { CreateDigitalDeviceRequest, DeleteDigitalDeviceRequest, DigitalDeviceServiceService, UpdateDigitalDeviceRequest } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { AccessControlServiceService, AddMemberRequest, CreateApiKeyRequest, RemoveMemberRequest, RevokeApiKeyRequest, RotateApiKeyRequest } from '../../src/gen/organization_access_control/access_control_service';
import { answer, isGone } from './clients';
import type { Running } from './site';

/** What an answer may say, whatever the method. */
export interface Answered {
  readonly id?: string;
  readonly userId?: string;
  readonly apiKey?: { readonly id: string };
  readonly executionId?: string;
  readonly accepted?: boolean;
}

/** How a call was answered; `gone`: not at all. */
export type Reply = { readonly kind: 'done'; readonly told: Answered } | { readonly kind: 'refused'; readonly reason: string } | { readonly kind: 'gone' };

interface Method {
  readonly path: string;
  readonly encode: (given: object) => Buffer;
  readonly decode: (bytes: Buffer) => Answered;
}

function method<Request>({ path, requestSerialize, responseDeserialize }: { path: string; requestSerialize: (request: Request) => Buffer; responseDeserialize: (bytes: Buffer) => unknown }, Message: { fromPartial(given: object): Request }): Method {
  return { path, encode: (given) => requestSerialize(Message.fromPartial(given)), decode: (bytes) => responseDeserialize(bytes) as Answered };
}

const [D, C, A] = [DigitalDeviceServiceService, ActuatorCommandServiceService, AccessControlServiceService];

/** The methods that are called. */
export const METHODS = {
  createDevice: method(D.createDigitalDevice, CreateDigitalDeviceRequest),
  updateDevice: method(D.updateDigitalDevice, UpdateDigitalDeviceRequest),
  deleteDevice: method(D.deleteDigitalDevice, DeleteDigitalDeviceRequest),
  createCommand: method(C.createCommand, CreateCommandRequest),
  execute: method(C.executeCommand, ExecuteCommandRequest),
  createKey: method(A.createApiKey, CreateApiKeyRequest),
  rotateKey: method(A.rotateApiKey, RotateApiKeyRequest),
  revokeKey: method(A.revokeApiKey, RevokeApiKeyRequest),
  addMember: method(A.addMember, AddMemberRequest),
  removeMember: method(A.removeMember, RemoveMemberRequest),
} as const;

/** The name of a method. */
export type MethodName = keyof typeof METHODS;

/** Calls a method over gRPC or HTTP. Throws what is a fault of this program. */
export async function send(running: Running, name: MethodName, given: object, requestId: string, overHttp: boolean): Promise<Reply> {
  return await (overHttp ? sendHttp(running, name, given, requestId) : sendGrpc(running, name, given, requestId));
}

async function sendGrpc({ clients }: Running, name: MethodName, given: object, requestId: string): Promise<Reply> {
  const { path, encode, decode } = METHODS[name];
  const metadata = clients.metadata.clone();
  metadata.set('x-request-id', requestId);
  try {
    return { kind: 'done', told: await answer<Answered>((answered) => clients.access.makeUnaryRequest(path, encode, decode, given, metadata, answered as (error: ServiceError | null, told?: Answered) => void)) };
  } catch (error) {
    const { code, details } = error as ServiceError;
    if (isGone(error)) return { kind: 'gone' };
    if (code !== status.NOT_FOUND) throw error;
    return { kind: 'refused', reason: details };
  }
}

async function sendHttp({ http, key }: Running, name: MethodName, given: object, requestId: string): Promise<Reply> {
  const headers = { 'content-type': 'application/json', 'x-api-key': key.apiKey, 'x-organization-id': key.organizationId, 'x-request-id': requestId };
  let code: number;
  let text: string;
  try {
    const response = await fetch(`http://${http}${METHODS[name].path}`, { method: 'POST', headers, body: JSON.stringify(given) });
    [code, text] = [response.status, await response.text()];
  } catch {
    return { kind: 'gone' };
  }
  if (code < 300) return { kind: 'done', told: (text === '' ? {} : JSON.parse(text)) as Answered };
  if (code >= 500) return { kind: 'gone' };
  if (code !== 404) throw new Error(`${name} over HTTP: ${code} ${text}`);
  return { kind: 'refused', reason: text };
}
