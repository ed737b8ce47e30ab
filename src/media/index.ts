export { imageListViolations, type DeviceImage, type ImageInput } from './deviceImage';
export { imagesFromJson, imagesOfDeviceSql, ImageRepository } from './imageRepository';
export { mediaNotFound, type Media, type Variant } from './media';
export { linkedMedia, mediaHandlers } from './mediaHandlers';
export { MediaLinks } from './mediaLinks';
export { MediaService } from './mediaService';
export { findMediaOwner, pictureBytes, pictureFiles } from './pictureFiles';
