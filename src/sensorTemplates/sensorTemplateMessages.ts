import type {
  NormalizedKey as NormalizedKeyMessage,
  SensorTemplate as SensorTemplateMessage,
} from '../gen/sensor_template/v2/sensor_template_service';
import { getEtag } from '../kernel/etags';
import { toTimestamp } from '../kernel/timestamps';
import type { NormalizedKey, SensorTemplate } from './sensorTemplate';

/** Converts a template to its proto message. */
export function templateToMessage(template: SensorTemplate): SensorTemplateMessage {
  return {
    id: template.id,
    organizationId: template.organizationId ?? '',
    description: template.description,
    isSystem: template.organizationId === undefined,
    keyNameId: template.keyNameId,
    keyName: template.keyName,
    sensorType: template.sensorType,
    unitMeasurementId: template.unitMeasurementId,
    valueType: template.valueType,
    createdAt: toTimestamp(template.createdAt),
    updatedAt: toTimestamp(template.updatedAt),
    etag: getOwnEtag(template),
  };
}

/** Converts a template to its proto message in a list, where `etag` is always empty (see the proto). */
export function listedTemplateToMessage(template: SensorTemplate): SensorTemplateMessage {
  return { ...templateToMessage(template), etag: '' };
}

/** Converts a normalized key to its proto message. */
export function keyToMessage(key: NormalizedKey): NormalizedKeyMessage {
  return {
    id: key.id,
    organizationId: key.organizationId ?? '',
    name: key.name,
    isSystem: key.organizationId === undefined,
    createdAt: toTimestamp(key.createdAt),
    updatedAt: toTimestamp(key.updatedAt),
    etag: getOwnEtag(key),
  };
}

/** Converts a normalized key to its proto message in a list, where `etag` is always empty. */
export function listedKeyToMessage(key: NormalizedKey): NormalizedKeyMessage {
  return { ...keyToMessage(key), etag: '' };
}

/** System records are read-only and have no etag. */
function getOwnEtag({ organizationId, revision }: SensorTemplate | NormalizedKey): string {
  return organizationId === undefined ? '' : getEtag(revision);
}
