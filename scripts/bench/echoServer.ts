// The baseline server: grpc-js and ts-proto with the messages of GetDigitalDevice only. Prints its port.
import { readFileSync } from 'node:fs';
import { Server, ServerCredentials } from '@grpc/grpc-js';
import {
  type DigitalDevice,
  DigitalDeviceServiceService,
  type GetDigitalDeviceRequest,
} from '../../src/gen/digitaldevice/v2/digital_device_service';

const [folder] = process.argv.slice(2);
const now = { seconds: 1_763_000_000, nanos: 123_000_000 };
const id = '019a9d6a-2f00-7000-8000-000000000001';
const response: DigitalDevice = {
  id,
  name: 'Heating valve 17',
  organizationId: id,
  lastSeen: now,
  physicalDevice: {
    id,
    clientDeviceId: 'valve-17',
    connectionId: id,
    configuration: { room: '17' },
    sensorMappings: ['data.temperature', 'data.position', 'data.battery'].map((sourcePath) => ({
      id,
      sensorId: id,
      sourcePath,
      createdAt: now,
      updatedAt: now,
    })),
    createdAt: now,
    updatedAt: now,
    lastUplinkFailure: undefined,
    lastDecoderWarnings: undefined,
  },
  sensors: [1, 2, 3].map(() => ({ id, sensorTemplateId: id, createdAt: now, updatedAt: now })),
  images: [],
  dataSendingInterval: undefined,
  createdAt: now,
  updatedAt: now,
  etag: '"3"',
};

const { getDigitalDevice } = DigitalDeviceServiceService;
const server = new Server();
server.addService(
  { getDigitalDevice },
  {
    getDigitalDevice: (
      call: { request: GetDigitalDeviceRequest },
      callback: (error: null, device: DigitalDevice) => void,
    ) => callback(null, { ...response, id: call.request.id }),
  },
);
const credentials = folder
  ? ServerCredentials.createSsl(null, [
      { cert_chain: readFileSync(`${folder}/server.pem`), private_key: readFileSync(`${folder}/server-key.pem`) },
    ])
  : ServerCredentials.createInsecure();
server.bindAsync('127.0.0.1:0', credentials, (error, port) => {
  if (error) throw error;
  process.stdout.write(`${JSON.stringify({ event: 'server.ready', grpc: `127.0.0.1:${port}` })}\n`);
});
process.on('SIGTERM', () => {
  server.forceShutdown();
  process.exit(0);
});
