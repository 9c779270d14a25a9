//! The place that is written to, and those that were before.

use std::sync::Arc;

use crate::log::Key;
use crate::place::Place;
use crate::segment::Segment;
use crate::{Config, Error};

pub(crate) struct Places {
    pub(crate) current: Arc<Place>,
    earlier: Vec<Arc<Place>>,
}

/// Segments of a log that are in one place.
pub(crate) struct Found {
    pub(crate) segments: Vec<Arc<Segment>>,
    /// Whether that is the one that is written to.
    pub(crate) is_current: bool,
}

impl Places {
    pub(crate) fn open(config: &Config) -> Result<Self, Error> {
        let open = |name: &String| Place::open(name, config).map(Arc::new);
        let earlier = config.earlier_places.iter().map(open).collect::<Result<_, _>>()?;
        Ok(Self { current: open(&config.place)?, earlier })
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Place>> {
        std::iter::once(&self.current).chain(&self.earlier)
    }

    /// What is kept of a log, in the newest place that has some of it.
    pub(crate) async fn find(&self, key: &Key) -> Result<Found, Error> {
        let mut segments = Vec::new();
        let mut is_current = true;
        for place in self.all() {
            let objects = place.list(&key.directory()).await?;
            segments =
                objects.iter().filter_map(|object| Segment::of_object(place, object)).map(Arc::new).collect();
            if !segments.is_empty() {
                is_current = Arc::ptr_eq(place, &self.current);
                break;
            }
        }
        Ok(Found { segments, is_current })
    }
}
