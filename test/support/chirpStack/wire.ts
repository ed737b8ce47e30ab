import { FIRST_DEV_ADDR, NAMES, type DownCommand, type Encoding, type Event } from './events';
import { commandOfMessage, toMessage } from './protobuf';

/** Encodes an event as ChirpStack publishes it. */
export function write(event: Event, encoding: Encoding): Buffer {
  return encoding === 'json'
    ? Buffer.from(JSON.stringify(getJson(event)))
    : Buffer.from(toMessage(event).serializeBinary());
}

/** Parses a down command as ChirpStack does. Throws for an invalid one. */
export function readCommand(bytes: Buffer, encoding: Encoding): DownCommand {
  if (encoding === 'protobuf') return commandOfMessage(bytes);
  const {
    id = '',
    devEui = '',
    confirmed = false,
    fPort = 0,
    data = '',
    object,
    expiresAt,
  } = JSON.parse(bytes.toString()) as Record<string, never>;
  return {
    id,
    devEui,
    confirmed,
    fPort,
    data: Buffer.from(data, 'base64'),
    object,
    expiresAt: expiresAt === undefined ? undefined : Date.parse(expiresAt),
  };
}

/** Formats a time with the nanoseconds and the offset that ChirpStack writes. */
function rfc3339(milliseconds: number): string {
  return new Date(milliseconds).toISOString().replace('Z', '456789+00:00');
}

function getJson(event: Event): object {
  const head = { time: rfc3339(event.time), deviceInfo: { ...NAMES, ...event.deviceInfo, tags: { site: 'north' } } };
  switch (event.kind) {
    case 'up': {
      const { deduplicationId, nsTime, devAddr = FIRST_DEV_ADDR, fCnt, fPort, data, object, rssi, snr } = event;
      const rx = {
        gatewayId: '0016c001f153a14c',
        uplinkId: 4217106255,
        gwTime: rfc3339(event.time),
        nsTime: rfc3339(nsTime),
        rssi,
        snr,
        channel: 1,
        location: {},
        context: 'AAAAAA==',
        crcStatus: 'CRC_OK',
      };
      const weak = {
        ...rx,
        gatewayId: '0016c001f153a14d',
        nsTime: rfc3339(nsTime + 40),
        rssi: rssi - 30,
        snr: snr - 12,
      };
      const tx = {
        frequency: 868500000,
        modulation: { lora: { bandwidth: 125000, spreadingFactor: 7, codeRate: 'CR_4_5' } },
      };
      return {
        deduplicationId,
        ...head,
        devAddr,
        adr: true,
        dr: 5,
        fCnt,
        fPort,
        confirmed: false,
        data: Buffer.from(data).toString('base64'),
        ...(object && { object }),
        rxInfo: [weak, rx],
        txInfo: tx,
        regionConfigId: 'eu868',
      };
    }
    case 'log': {
      const { level, code, description, context } = event;
      return { ...head, level, code, description, context };
    }
    case 'location': {
      const { deduplicationId, latitude, longitude } = event;
      return {
        deduplicationId,
        ...head,
        location: { latitude, longitude, altitude: 0, source: 'GEO_RESOLVER_TDOA', accuracy: 0 },
      };
    }
    case 'txack': {
      const { queueItemId, fCntDown } = event;
      return {
        downlinkId: 1,
        queueItemId,
        fCntDown,
        ...head,
        gatewayId: '0016c001f153a14c',
        txInfo: { frequency: 868500000, power: 16 },
      };
    }
    case 'join':
    case 'ack':
    case 'status':
      break;
  }
  return { ...event, kind: undefined, ...head };
}
