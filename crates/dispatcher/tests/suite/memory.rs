//! The dispatcher on the memory log.

crate::kit::suite::suite!(crate::kit::site::Site::memory());
